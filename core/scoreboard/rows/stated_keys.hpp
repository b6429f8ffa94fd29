#pragma once
// Keys of a job's scenario that its row, or the row's file, states. What neither states is left to the profile of the
// software (core/framework).

#include <string>
#include <string_view>

#include "core/scoreboard/rows/row_fields.hpp"

namespace rehearse {

struct Scenario;

class StatedKeys {
 public:
  StatedKeys(RowFields& fields, Scenario& scenario) : fields_(fields), scenario_(scenario) {}

  /// Sets `key` from a field of truth values, where somebody states it; `opposite` where they mean the contrary. Throws
  /// RowSkipped (malformed) for other values.
  void truth(const char* field, std::string_view key, bool opposite = false);
  /// The same of a text that is one of the key's choices.
  void word(const char* field, std::string_view key);
  /// The same of a whole number from 1 to `most`.
  void whole(const char* field, std::string_view key, std::int64_t most);
  /// Sets a key that the defaults have under its own name.
  void own(const std::string& key);
  /// Sets `key` to a value that the mapping worked out, as JSON. Throws RowSkipped (malformed) where the key does not
  /// take it.
  void put(std::string_view key, std::string_view value);
  /// The key has been set, and no profile changes it.
  void keep(std::string_view key);

 private:
  RowFields& fields_;
  Scenario& scenario_;
};

}  // namespace rehearse
