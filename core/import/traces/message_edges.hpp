#pragma once
// Which messages of several traced ranks are the two ends of one. Private to core/import.

#include <vector>

#include "core/import/traces/job_trace.hpp"

namespace rehearse {

/// Per rank and call, by index: a number that the sends of one stream share with the receives that take them, in their
/// order; -1 for collectives, and for messages whose other end is not traced or not found.
///
/// Between two ranks the sends of a stream belong to the receives of that stream with as many of the same sizes, none
/// of which ends before its message was sent, and whose ends are nearest.
[[nodiscard]] std::vector<std::vector<int>> message_edges(const JobTrace& job);

}  // namespace rehearse
