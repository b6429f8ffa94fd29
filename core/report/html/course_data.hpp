#pragma once
// Device memory over a step: what liveness counts, call by call, at the times that a trace gives the calls.

#include <string>

#include "core/price/stage_memory.hpp"
#include "core/report/pictures/gantt.hpp"
#include "core/trace/trace.hpp"

namespace rehearse {

/// {unit_s, end, tightest, categories[], rows[{stage, rank, capacity_bytes, t[], bytes[[by category]]}]}, a row for
/// each of `memory`'s stages of which `trace` holds a rank; empty where there is none. `t` is in unit_s, a millionth of
/// the period. A row has at most `most_points`: the fullest call of each slice of time. Calls that the trace does not
/// show (communication) count at the time of the compute before them. `tightest` is an index into rows.
[[nodiscard]] std::string course_json(const Program& program, const MemoryReport& memory, const Trace& trace,
                                      Seconds begin, Seconds period, std::size_t most_points = 400);

}  // namespace rehearse
