#pragma once
// Sentences with figures in them, filled in from results, so that no number in a lesson can be out of date:
//
//   "{funnel.step_time|time} a step, {funnel.step_time / ddp.step_time|times} of DDP's: {funnel.step_time >
//   ddp.step_time ? 'slower' : 'faster'}."
//
// Between braces stands a formula (formula.hpp), with '|' and a form after it; a comparison with two words of which the
// figures choose one; or the name of a text with the form "word": {vgg.model|word}, {tiles.set.strategy.schedule|word}.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/lesson/formula.hpp"

namespace rehearse {

/// How a number is written: "time" (26.3 ms), "bytes" (102.2 MB), "gib" (4.55 GiB), "flops", "percent" (of 1: 12.3 %),
/// "times" (1.85 times), "count" (1,024), "number" (4 digits), "words" (sixteen; digits from 21 on), "Words" (Sixteen).
[[nodiscard]] const std::vector<std::string>& figure_forms();
/// `form` is one of those; empty is "number".
[[nodiscard]] std::string figure_text(double value, const std::string& form);

/// What the name of a text stands for; nothing where it has none.
using WordLookup = std::function<std::optional<std::string>(const std::string&)>;

class FigureText {
 public:
  /// Throws Error (usage) at `where`: an open brace, a formula, a form nobody knows.
  [[nodiscard]] static FigureText parse(std::string_view text, const std::string& where);

  /// Nothing where one of its figures has no value: the sentence cannot be said.
  [[nodiscard]] std::optional<std::string> fill(const FigureLookup& lookup, const WordLookup& word = {}) const;
  /// Of all its formulas and texts.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  struct Part {
    std::string text;  ///< Before the formula.
    std::optional<Formula> formula{};
    std::string word{};  ///< Name of a text, in place of a formula.
    std::string form{};
    bool chooses = false;
    std::string yes{}, no{};
  };
  static Part parse_braces(std::string_view inside, const std::string& where);
  std::vector<Part> parts_;
};

}  // namespace rehearse
