#pragma once
// The fields of one row as the mapping asks for them: from the row, else from the defaults, with a trail of
// what was assumed.

#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/scoreboard/rows/measurement.hpp"

namespace rehearse {

/// One field of a scenario and where it is from.
struct Assumption {
  std::string field;
  std::string value;
  std::string from;  ///< "row", or the citation.
  Evidence evidence = Evidence::published;
};

/// Why a row is not predicted: a reason that rows are counted by, and what it is about.
class RowSkipped : public std::runtime_error {
 public:
  explicit RowSkipped(const std::string& cause, std::string about = {})
      : std::runtime_error(cause), detail(std::move(about)) {}
  std::string detail;
};

class RowFields {
 public:
  /// What the row's file says goes before `any`, which is for rows of any file.
  RowFields(const Measurement& row, const RowDefaults& any);

  [[nodiscard]] const Measurement& row() const { return row_; }

  /// The value of a field: from the row, where that is an answer ("see recipe" is none); else from the defaults. Absent
  /// where neither has one. What is taken is remembered for --explain.
  [[nodiscard]] FieldValue find(const std::string& field);
  /// A text that no answer is: "see ...", "not stated", "unknown".
  [[nodiscard]] static bool evades(std::string_view text);

  /// Empty where the field is absent. Throws RowSkipped where it is no text.
  [[nodiscard]] std::string text(const std::string& field);
  /// As text(), of what the row itself says.
  [[nodiscard]] std::string stated(const std::string& field) {
    return std::holds_alternative<std::monostate>(said(field)) ? std::string() : text(field);
  }
  [[nodiscard]] bool truth(const std::string& field);
  /// A whole number from 1 to `most`; absent where the field is. Throws RowSkipped (malformed) for anything else.
  [[nodiscard]] std::optional<std::int64_t> whole(const std::string& field, std::int64_t most = 1'000'000'000);
  /// A number of at least 0 and less than `below`; absent where the field is. Throws RowSkipped (malformed) for
  /// anything else.
  [[nodiscard]] std::optional<double> number(const std::string& field, double below);
  /// As whole(); throws RowSkipped ("field missing: FIELD") where it is absent.
  [[nodiscard]] std::int64_t needed(const std::string& field, std::int64_t most = 1'000'000'000);
  [[nodiscard]] std::string needed_text(const std::string& field);

  /// The default's text, whatever the row says; empty where there is none.
  [[nodiscard]] std::string fallback(const std::string& field);

  /// Remembers a value that the mapping worked out itself.
  void note(const std::string& field, const std::string& value, const std::string& from,
            Evidence evidence = Evidence::published);
  /// A field that matters and that nobody states: the row is predicted with `value`, and counts in no error figure.
  void guess(const std::string& field, const std::string& value, const std::string& why);

  /// Fields of the row that nobody asked for and whose names nearly are those of fields that were asked for and are not
  /// there: guess() for each.
  void guess_misspelt();

  /// Defaults that are keys of a scenario: "strategy.grad_sync".
  [[nodiscard]] std::vector<std::string> keys() const;

  [[nodiscard]] const std::vector<Assumption>& trail() const { return trail_; }
  [[nodiscard]] const std::vector<std::string>& guessed() const { return guessed_; }
  [[nodiscard]] const std::set<std::string>& asked() const { return asked_; }

 private:
  /// What the row says under this very name; absent where it evades.
  [[nodiscard]] FieldValue said(const std::string& field) const;

  const Measurement& row_;
  std::map<std::string, RowDefault> defaults_;
  std::vector<Assumption> trail_;
  std::vector<std::string> guessed_;
  std::set<std::string> told_;
  std::set<std::string> asked_;
  std::set<std::string> conditions_;  ///< Fields that defaults hang on.
};

}  // namespace rehearse
