#pragma once
// Which operators a Program needs and a device lacks.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/program/program.hpp"
#include "gpu_backend/execute/device.hpp"

namespace rehearse {

/// Their names, sorted; empty where the Program can run.
[[nodiscard]] std::vector<std::string> missing_operators(const Program& program, const ComputeDevice& device);
/// The same for a device that is only known by its operators' names.
[[nodiscard]] std::vector<std::string> missing_operators(const Program& program,
                                                         const std::function<bool(std::string_view)>& has);
/// The error (unavailable) that says so.
[[nodiscard]] Error lacks(const std::string& device, const std::vector<std::string>& operators);

/// Runs before a task that adds to its results where it is to overwrite them.
inline constexpr std::string_view kZeros = "fill.zeros";

}  // namespace rehearse
