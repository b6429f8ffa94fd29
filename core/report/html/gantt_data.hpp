#pragma once
// Spans thinned to what a picture can show: one row per rank, blocks of one pass of one microbatch, communication as
// runs.

#include <string>
#include <vector>

#include "core/report/pictures/gantt.hpp"
#include "core/trace/trace.hpp"

namespace rehearse {

/// Rows of one trace. Several stand under each other where a step was simulated and measured.
struct GanttSide {
  const Trace* trace = nullptr;
  std::vector<GanttRow> rows;
  Seconds begin, period;  ///< Of the step, on the trace's clock; the period is above 0.
};

struct GanttDataOptions {
  /// Of all rows; beyond it, thin neighbours are drawn as one, as what most of their time is.
  std::size_t most_blocks = 24000;
};

/// {unit_s, end, period_s, chunks, thinned, rows[{label, rank, period_s, seconds{forward, backward, optimizer, idle},
/// spans[], talks[]}]}. Times in the arrays are whole multiples of unit_s, a millionth of the longest period; `spans`
/// holds begin, length, pass, microbatch, chunk (of the rank's, from 0) of one block after another, `talks` begin,
/// length, kind. Pass: 0 forward, 1 backward, 2 backward of weights, 3 optimizer; kind: 0 collective, 1 message, 2 copy
/// or input. Microbatch -1: none, -2: several. `seconds` are exact, of `period_s`, the row's own step, and idle is what
/// no compute span covers. Rows of several sides alternate.
[[nodiscard]] std::string gantt_json(const std::vector<GanttSide>& sides, const GanttDataOptions& options = {});

}  // namespace rehearse
