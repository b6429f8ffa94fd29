#pragma once
// Arithmetic over named figures, as lesson files write it: "1 - funnel.samples_per_s / ddp.samples_per_s", "a.step_time
// < b.step_time".
//
//   sum     := product (("+" | "-") product)*          compare := sum (("<" | "<=" | ">" | ">=") sum)?
//   product := factor (("*" | "/") factor)*             factor  := number | name | "-" factor | "(" compare ")" |
//   function "(" compare, ... ")"
//
// Names are words joined by dots. Functions: min, max (one argument or more), abs, round (one). A comparison is 1 or 0.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

/// What a name stands for; nothing where it has no value, which makes the whole formula have none. May throw for names
/// it does not know.
using FigureLookup = std::function<std::optional<double>(const std::string&)>;

/// A parsed formula. Cheap to evaluate, copyable.
class Formula {
 public:
  /// Throws Error (usage) at `where`, with the text and the place in it that was not understood.
  [[nodiscard]] static Formula parse(std::string_view text, const std::string& where);

  /// Nothing where a name has no value or a division has no finite result.
  [[nodiscard]] std::optional<double> value(const FigureLookup& lookup) const;
  /// Each name once, in the order of the text.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  /// As it was written.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  friend class FormulaParser;
  enum class Code {
    number,
    name,
    add,
    subtract,
    multiply,
    divide,
    negate,
    less,
    at_most,
    more,
    at_least,
    minimum,
    maximum,
    absolute,
    rounded
  };
  struct Step {
    Code code;
    double number = 0;
    std::size_t name = 0;
    std::size_t arguments = 0;
  };

  std::string text_;
  std::vector<std::string> names_;
  std::vector<Step> steps_;  ///< Reverse Polish.
};

}  // namespace rehearse
