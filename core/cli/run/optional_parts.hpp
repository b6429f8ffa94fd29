#pragma once
// Parts of the program that a build may leave out. CMake picks one file for each: *_built_in.cpp or *_left_out.cpp.

#include <memory>
#include <string>
#include <vector>

#include "core/play/clocks/play_clock.hpp"

namespace rehearse::cli {

/// A clock on which flows share links (SimGrid). Throws Error (unavailable) where SimGrid is left out, or while another
/// lives.
[[nodiscard]] std::unique_ptr<PlayClock> make_simgrid_clock(const Cluster& cluster);
/// "3.32", or empty where SimGrid is left out.
[[nodiscard]] std::string simgrid_version();

/// One line per CUDA device, or one that says why there is none.
[[nodiscard]] std::vector<std::string> describe_cuda_devices();

}  // namespace rehearse::cli
