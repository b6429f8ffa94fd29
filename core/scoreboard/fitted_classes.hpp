#pragma once
// How many constants were fitted, against the rows that they have.

#include <filesystem>
#include <string>
#include <vector>

namespace rehearse {

/// Constants of one kernel class and GPU generation that were fitted, each once however many groups and GPUs hold it;
/// those that several generations share are a class of their own, named by all of them and over the rows of all. One
/// that was fitted on whole steps is a class of its own, whose rows are those fitted times `StepConstant::every`.
struct FittedClass {
  std::string generation, group;
  int constants = 0;
  int rows = 0;  ///< Of the class: `fitted` and those that were held out to test the constants.
  int fitted = 0;
};
/// Of all files under `calibration`. Throws Error (usage) as parse_calibration() does.
[[nodiscard]] std::vector<FittedClass> fitted_classes(const std::filesystem::path& calibration);

}  // namespace rehearse
