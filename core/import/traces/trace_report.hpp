#pragma once
// What a traced job did: totals per rank, per class of kernel and per collective, as a document.

#include <cstdint>
#include <map>
#include <string>

#include "core/import/traces/job_trace.hpp"
#include "core/import/traces/measured_workload.hpp"
#include "core/report/formats/document.hpp"

namespace rehearse {

/// Sums over one rank. Kernels that ran at once count each.
struct OperationTotal {
  std::int64_t count = 0;
  Seconds time;     ///< Of all, waiting included.
  Seconds waiting;  ///< Of calls: until the last traced rank of the group entered.
  Bytes bytes;      ///< Of calls, where the trace says.
  Flops work;       ///< Of kernels, where the trace says.

  OperationTotal& operator+=(const OperationTotal& more);
};
/// By class of kernel ("matmul") and by call ("all_reduce").
struct RankTotals {
  std::map<std::string, OperationTotal> kernels, calls;
  [[nodiscard]] static OperationTotal sum(const std::map<std::string, OperationTotal>& of);
};
/// Over everything, or over the events that begin in `window`.
[[nodiscard]] RankTotals rank_totals(const JobTrace& job, int rank_index, const StepWindow* window = nullptr);

/// `workload` is shown where one was written (null: none).
[[nodiscard]] Document trace_document(const JobTrace& job, const MeasuredWorkload* workload);

}  // namespace rehearse
