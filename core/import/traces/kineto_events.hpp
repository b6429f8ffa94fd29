#pragma once
// From single entries of a Kineto file to the traces of its ranks. Private to core/import.

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/import/traces/cpu_operators.hpp"
#include "core/import/traces/job_trace.hpp"
#include "core/import/traces/read_trace.hpp"

namespace rehearse {

/// One entry of traceEvents as it stands in the file; only the fields that matter. Reused from entry to entry.
struct KinetoEntry {
  char phase = 0;
  std::string category, name, process, thread;  ///< `process` and `thread` as text, whatever they were.
  bool timed = false, lasting = false;          ///< Whether "ts" and "dur" are there and numbers.
  double ts = 0, dur = 0;                       ///< Microseconds.
  // Of "args":
  std::int64_t correlation = -1, sequence = -1, stream = -1, device = -1, group_size = 0;
  std::int64_t source = -1, destination = -1;  ///< "Src Rank", "Dst Rank": of the job, of a message.
  /// "In msg nelems", "Out msg nelems", of the first of "Input Dims".
  double elements_in = -1, elements_out = -1, elements_hint = -1;
  /// `label` is "name", of a process; `cls` is "class".
  std::string collective, dtype, group, members, label, cls;
  void clear();
};

class KinetoEvents {
 public:
  KinetoEvents(std::string origin, TraceLimits limits) : origin_(std::move(origin)), limits_(limits) {}

  void add(const KinetoEntry& entry);
  /// What stands outside traceEvents.
  int rank = -1, world_size = 0;
  double base_ns = 0;
  std::map<std::int64_t, std::string> gpu_names;
  [[nodiscard]] std::int64_t entries() const { return entries_; }
  [[nodiscard]] std::vector<RankTrace> finish();

 private:
  struct Launch {
    std::int64_t correlation;
    double ts;
    std::int32_t thread;
  };
  struct Mark {
    std::int32_t thread;
    double begin, end;
    std::string op;
    double bytes;
  };
  struct Process {
    std::vector<DeviceEvent> events;
    std::vector<CommunicationCall> calls;
    std::vector<std::int64_t> correlations;
    std::int64_t device = -1;
    int rank = -1;
  };

  [[noreturn]] void fail(const std::string& what) const;
  void host_event(std::int32_t thread, const KinetoEntry& e);
  void device_event(const KinetoEntry& e);
  std::int32_t call_of(Process& process, const KinetoEntry& e);
  void complete_calls(Process& process);
  std::int32_t intern(const std::string& name);
  RankTrace trace_of(Process&& process);

  std::string origin_;
  TraceLimits limits_;
  std::int64_t entries_ = 0, device_events_ = 0;
  bool based_ = false;
  double base_us_ = 0;
  std::vector<std::string> names_;
  std::vector<OperationClass> classes_;
  std::unordered_map<std::string, std::int32_t> known_;
  std::unordered_map<std::string, std::int32_t> threads_;
  std::map<std::string, Process> processes_;
  std::vector<Launch> launches_;
  std::vector<Mark> marks_;
  CpuOperators operators_;  ///< Empty from the first device event on.
  std::vector<StepWindow> steps_;
};

}  // namespace rehearse
