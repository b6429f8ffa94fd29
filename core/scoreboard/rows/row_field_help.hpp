#pragma once
// What a row of measurements may say, for people.

#include <string>
#include <vector>

namespace rehearse {

struct RowFieldHelp {
  std::string names;  ///< With commas between them, where several go together.
  std::string help;   ///< Values and what they mean.
};

/// Fields of `measured`, then those of `config`, which `file_meta.defaults` may state for all rows of a file.
[[nodiscard]] const std::vector<RowFieldHelp>& measured_field_help();
[[nodiscard]] const std::vector<RowFieldHelp>& row_field_help();

}  // namespace rehearse
