#pragma once
// Parts of the program that a build may leave out. CMake picks one file for each: *_built_in.cpp or *_left_out.cpp.

#include <string>
#include <vector>

namespace rehearse::cli {

/// Enters back end "simgrid", where it is built in.
void register_simgrid();
/// "3.32", or empty where SimGrid is left out.
[[nodiscard]] std::string simgrid_version();

/// One line per CUDA device, or one that says why there is none.
[[nodiscard]] std::vector<std::string> describe_cuda_devices();

}  // namespace rehearse::cli
