#pragma once
// PyTorch's profiler output, event by event. Private to core/import; read_trace.hpp is the way in.

#include <istream>
#include <string>
#include <vector>

#include "core/import/traces/job_trace.hpp"
#include "core/import/traces/read_trace.hpp"

namespace rehearse {

/// Device events are kernels, copies and fills; calls take operation, size and group from the kernel's own fields, else
/// from the "nccl:" mark around their launch (by correlation), else the operation from the kernel's name. Errors as
/// read_trace's.
[[nodiscard]] std::vector<RankTrace> read_kineto(std::istream& in, const std::string& origin,
                                                 const TraceLimits& limits);

}  // namespace rehearse
