#pragma once
// What the profilers of a job wrote, rank by rank, brought to one form: device events, the communication calls among
// them, and which calls of different ranks are one collective. Compact, so that files of a gigabyte fit; `to_trace`
// turns it into spans.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"
#include "core/program/operation_class.hpp"
#include "core/trace/trace.hpp"

namespace rehearse {

/// By the parts of kernels' names that libraries have agreed on ("gemm", "flash_fwd", "layer_norm", ...), case apart;
/// first rule wins.
[[nodiscard]] OperationClass class_of_kernel(std::string_view name);

/// A call of a communication library by one rank, as far as the trace tells it.
struct CommunicationCall {
  /// "all_reduce", ..., as CollectiveOp has them; "send", "receive", "barrier", or "unknown".
  std::string op;
  Bytes bytes;                 ///< The larger of what this rank puts in and gets out; 0 where the trace does not say.
  bool sized = false;          ///< Whether the trace says how many bytes.
  std::string group;           ///< Process group; empty where the trace does not say.
  std::vector<int> members;    ///< Ranks of the group; empty where the trace does not say.
  int group_size = 0;          ///< 0 where the trace does not say.
  std::int64_t sequence = -1;  ///< Number of the call in its group; -1 where the trace does not say.
  int peer = -1;               ///< Rank that a message goes to or comes from; -1 where the trace does not say.
};

/// One kernel, copy or call on one stream. Times are from RankTrace::base_us on.
struct DeviceEvent {
  Seconds begin, duration;
  std::int32_t name = 0;    ///< Index into RankTrace::names.
  std::int32_t call = -1;   ///< Index into RankTrace::calls; -1 for computation and copies.
  std::int32_t stream = 0;  ///< The stream's number in the trace.
  OperationClass cls = OperationClass::other;
  [[nodiscard]] Seconds end() const { return begin + duration; }
};

/// One training step as the profiler marks it ("ProfilerStep#5").
struct StepWindow {
  std::string name;
  Seconds begin, end;
};

struct RankTrace {
  int rank = 0;
  int world_size = 0;        ///< 0 where the file does not say.
  std::string file, gpu;     ///< `gpu` is the device's name as the file says it; may be empty.
  std::int64_t base_us = 0;  ///< Microseconds since the epoch of the rank's own clock.
  std::vector<std::string> names;
  std::vector<DeviceEvent> events;       ///< By begin.
  std::vector<CommunicationCall> calls;  ///< In order of their events.
  std::vector<StepWindow> steps;         ///< By begin; empty where the profiler marked none.
  std::vector<Flops> work;               ///< By event, where the trace says (Chakra's num_ops); else empty.
  /// The file has no start times: begins follow from dependencies and streams, without waiting for other ranks.
  bool laid_out = false;
  std::int64_t all_events = 0;  ///< Entries of the file, those passed over included.
};

/// The same collective on several ranks.
struct MatchedCall {
  struct Member {
    int rank_index;
    std::int32_t event;
  };  ///< Indices into JobTrace::ranks and RankTrace::events.
  std::vector<Member> members;
  Seconds last_entry;  ///< When the last of them entered, on the job's clock.
};

/// The ranks of one job on one clock.
struct JobTrace {
  std::vector<RankTrace> ranks;  ///< By rank.
  std::vector<Seconds> clock;    ///< Per rank: to be added to its times; 0 for the first.
  /// Per rank: by how much its own clock was set right, which is part of `clock`.
  std::vector<Seconds> correction;
  std::vector<MatchedCall> matched;
  std::string how_matched;  ///< One sentence: sequence numbers, order of the calls, or overlap in time.
  /// Time of an event after the last traced rank entered: what moves bytes. The whole duration for calls without
  /// partners in the trace.
  [[nodiscard]] Seconds transfer(int rank_index, std::int32_t event) const;
  /// Duration less transfer: waiting for the others. A lower bound where not all ranks of the group were traced.
  [[nodiscard]] Seconds waiting(int rank_index, std::int32_t event) const;
  std::vector<std::vector<std::int32_t>> match_of;  ///< Per rank and event: index into `matched`, or -1.
};

/// Puts ranks on one clock and finds which calls belong together. Throws Error (usage) for two files of one rank, and
/// for ranks of jobs of different sizes.
///
/// Calls match within a process group (its members, or its name): by sequence number where both ranks' traces have one;
/// else in order, where both made the same calls; else where they have the same operation (and size, unless it is an
/// all-to-all) and overlap in time, as the kernels of one collective must. A collective ends everywhere at once,
/// nearly: clocks are set by the median difference of the ends.
[[nodiscard]] JobTrace align(std::vector<RankTrace> ranks);

/// Spans of every device event, waiting apart from communication, with one stream per stream number.
[[nodiscard]] Trace to_trace(const JobTrace& job);

}  // namespace rehearse
