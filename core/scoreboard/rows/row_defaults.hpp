#pragma once
// What rows leave unsaid: the profile of the software that ran them (topologies/frameworks), and what those who
// measured chose for themselves. Stands in `file_meta.defaults` of a file of rows; what goes for rows of any file, in
// topologies/row_defaults.json.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/hardware/specs.hpp"

namespace rehearse {

struct Measurement;

/// A value of a row: absent (null), a truth value, a number, or a text. Lists and objects are their compact JSON text.
using FieldValue = std::variant<std::monostate, bool, double, std::string>;

/// A default with where it is from.
struct RowDefault {
  FieldValue value;
  Source source;
  std::string why;  ///< May be empty.
};

class RowDefaults {
 public:
  /// Throws Error (usage) with file and JSON path for anything missing, unknown or mistyped, and for citations that are
  /// not among the sources or that nothing cites.
  [[nodiscard]] static RowDefaults load(const std::filesystem::path& file);
  /// The same of an object of `entries` and `sources`, as JSON; `where` is its place, for messages.
  [[nodiscard]] static RowDefaults parse(std::string_view text, const std::string& where);

  /// Defaults for one row: those of every entry whose conditions it meets, later entries before earlier ones.
  [[nodiscard]] std::map<std::string, RowDefault> defaults_for(const Measurement& row) const;
  /// The release that the last matching entry names; empty where none does.
  [[nodiscard]] std::string release_of(const Measurement& row) const;

  struct Condition {
    std::string field;               ///< "source", "id", "file", or a field of the configuration.
    std::vector<FieldValue> wanted;  ///< Any of them: a text is contained, whatever its case; anything else is equal.
  };
  struct Entry {
    std::vector<std::vector<Condition>> when;  ///< Any of the lists, each of which a row meets whole.
    std::string release;
    std::map<std::string, RowDefault> defaults;
  };
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

/// Lower case, ASCII only: how texts of rows are compared.
[[nodiscard]] std::string lowered(std::string_view text);
/// Whether `text` holds `part`, whatever the case.
[[nodiscard]] bool holds(std::string_view text, std::string_view part);

}  // namespace rehearse
