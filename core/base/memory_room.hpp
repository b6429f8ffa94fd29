#pragma once
// How much memory this process may take.

#include "core/base/units.hpp"

namespace rehearse {

/// The least of the machine's memory, the process's limit (ulimit -v), and what its container is given (cgroups version
/// 2, memory.max of the group and of those that it lies in). Where nothing says so, 1 GiB.
[[nodiscard]] Bytes memory_room();

}  // namespace rehearse
