#pragma once
// What to say when a device has no memory left: what the plan expected, and what was in use, by category.

#include <string>

#include "core/program/liveness.hpp"
#include "gpu_backend/execute/device.hpp"

namespace rehearse {

/// Error (infeasible) with a table: per category the peak that core/program/liveness predicts for this rank's role, and
/// what the executor had given out, in the Program's types; then what the device says. `where` names the task or tensor
/// that found none.
[[nodiscard]] Error explained(const OutOfMemory& e, const Program& program, int rank, const CategoryBytes& in_use,
                              const std::string& where);

}  // namespace rehearse
