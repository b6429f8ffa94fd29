#pragma once
// What published rows leave unsaid about their software, by source and framework release (topologies/software).

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/hardware/specs.hpp"
#include "core/scoreboard/rows/measurement.hpp"

namespace rehearse {

/// A default with where it is from.
struct SoftwareDefault {
  FieldValue value;
  Source source;
  std::string why;  ///< May be empty.
};

class SoftwareTable {
 public:
  /// Every .json file of `directory`: any.json first, then by name. Throws Error (usage) with file and JSON path for
  /// anything missing, unknown or mistyped, and for citations that are not among the file's sources or that nothing
  /// cites.
  [[nodiscard]] static SoftwareTable load(const std::filesystem::path& directory);

  /// Defaults for one row: those of every entry whose conditions it meets, later entries before earlier ones.
  [[nodiscard]] std::map<std::string, SoftwareDefault> defaults_for(const Measurement& row) const;
  /// The release that the last matching entry names; empty where none does.
  [[nodiscard]] std::string release_of(const Measurement& row) const;

  struct Condition {
    std::string field;               ///< "source", "id", "file", or a field of the configuration.
    std::vector<FieldValue> wanted;  ///< Any of them: a text is contained, whatever its case; anything else is equal.
  };
  struct Entry {
    std::vector<std::vector<Condition>> when;  ///< Any of the lists, each of which a row meets whole.
    std::string release;
    std::map<std::string, SoftwareDefault> defaults;
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
