#pragma once
// A step of a traced job as work to be played again: measured kernel times, the calls between them, and what waited for
// what. The file (rehearse/measured_workload/v1) is what `import trace -o` writes and `simulate` plays.
//
//   { "schema": "rehearse/measured_workload/v1", "name": "job", "gpu": "NVIDIA A100-SXM4-80GB", "world_size": 16,
//   "step": "ProfilerStep#5",
//     "measured_step_us": 181200.5, "groups": [{"stride": 1, "size": 8}, {"stride": 8, "size": 2, "data_parallel":
//     true}], "cluster": {"machine": "dgx_a100_80gb", "nodes": 2}, "data_parallel": 4, "kernel_scale": 1, "calls":
//     "model", "messages": "refused", "ranks": [{"rank": 0, "streams": ["7", "40"], "operations": [...]}] }
//
// May be changed when it is played: `cluster`, `data_parallel` (the batch per replica stays: weak scaling),
// `kernel_scale` (for a GPU of another speed) and `calls` (model: priced for that cluster; measured: as traced). May
// not, because kernel times would be others: the model, batch per replica, precision, and every axis but data
// parallelism.
//
// Messages between two ranks (send, receive) last while they wait for the other end. They are priced where the trace
// names it ("Src Rank", "Dst Rank" of PyTorch's profiler) and both ends were traced. A workload that has others is
// refused unless `messages` (or `calls`) is "measured", which keeps the traced times: right for the cluster of the
// trace.
//
// What waited for what is read off the times. A call starts after the last kernel of another stream that had ended when
// it started. A kernel waits for what another stream ended in the gap before it, at most kReleaseWindow before; a gap
// without such an end is the host's, and stays.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/scenario.hpp"
#include "core/import/traces/job_trace.hpp"
#include "core/trace/trace.hpp"

namespace rehearse {

inline constexpr std::string_view kMeasuredWorkloadSchema = "rehearse/measured_workload/v1";
/// Longest time from the end of what was waited for to the start of what waited: a few launches. An estimate.
inline constexpr Seconds kReleaseWindow{50e-6};

/// Ranks `stride` apart, `size` of them: [0, 8] is stride 8, size 2.
struct GroupShape {
  int stride = 1, size = 1;
  bool data_parallel = false;
};

/// A run of kernels on one stream, or one call.
struct MeasuredOperation {
  int stream = 0;                          ///< Index into MeasuredRank::streams.
  Seconds delay;                           ///< The host's: from the end of all it waits for to its start.
  std::map<TimeCategory, Seconds> work{};  ///< Kernels by category; gaps between them are `launch`. Empty for calls.
  std::vector<int> after{};                ///< Operations of other streams, by index.
  std::string call{};                      ///< "all_reduce", ...; empty for kernels.
  Bytes bytes{};                           ///< As nccl-tests counts: the larger side.
  bool sized = false;
  int group = -1;  ///< Index into MeasuredWorkload::groups; -1 where the ranks are not known.
  /// Of a message: the rank at its other end, and a number that sends of one stream share with the receives that take
  /// them in their order; -1 where either is not known.
  int peer = -1, edge = -1;
  Seconds measured;  ///< Of a call: without waiting, as far as other ranks were traced.
};

struct MeasuredRank {
  int rank = 0;
  std::vector<std::string> streams;
  std::vector<MeasuredOperation> operations;  ///< In order of their starts.
};

struct MeasuredWorkload {
  std::string name, gpu, step;
  int world_size = 1;
  Seconds measured_step;
  std::vector<GroupShape> groups;
  std::vector<MeasuredRank> ranks;
  std::vector<std::string> notes;  ///< What was taken for granted.
  // To be changed by whoever plays it:
  std::optional<ClusterRef> cluster;
  int data_parallel = 0;    ///< Size of the data-parallel groups; 0: as traced.
  double kernel_scale = 1;  ///< Kernel times are multiplied by this; above 0.
  bool calls_measured = false;
  bool messages_measured = false;  ///< Sends and receives last as traced, waiting included.
};

/// A message between two ranks.
[[nodiscard]] bool is_message(const MeasuredOperation& operation);
/// One whose two ends are known.
[[nodiscard]] bool is_priced_message(const MeasuredOperation& operation);

/// The step named `step` ("5" or "ProfilerStep#5"); empty takes the last whole one, or everything where the profiler
/// marked none. Throws Error (usage) for a step that is not there, and for traces without times.
[[nodiscard]] MeasuredWorkload measured_workload(const JobTrace& job, const std::string& step);

[[nodiscard]] std::string measured_workload_json(const MeasuredWorkload& workload);
/// `overrides` as of scenarios: "cluster.machine=dgx_h100", "data_parallel=8". Throws Error (usage) with the JSON path.
[[nodiscard]] MeasuredWorkload read_measured_workload(const std::string& path,
                                                      const std::vector<std::string>& overrides = {});
/// Whether the file says that it is one.
[[nodiscard]] bool is_measured_workload(const std::string& path);

}  // namespace rehearse
