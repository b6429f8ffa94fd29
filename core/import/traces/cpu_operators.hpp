#pragma once
// Operators that ran on a CPU, one inside the other, as PyTorch's profiler writes them where there is no GPU. Private
// to core/import.

#include <cstdint>
#include <vector>

#include "core/import/traces/job_trace.hpp"

namespace rehearse {

class CpuOperators {
 public:
  /// One operator on a thread; times in seconds on the trace's clock.
  void add(std::int32_t thread, std::int32_t name, OperationClass cls, Seconds begin, Seconds end) {
    all_.push_back({thread, name, cls, begin, end});
  }
  void clear() { all_.clear(); }
  [[nodiscard]] std::size_t size() const { return all_.size(); }

  /// Each operator's own time: what none that it calls takes. An operator that calls others comes in several pieces;
  /// the stream is its thread.
  [[nodiscard]] std::vector<DeviceEvent> own_times();

 private:
  struct Operator {
    std::int32_t thread, name;
    OperationClass cls;
    Seconds begin, end;
  };
  std::vector<Operator> all_;
};

}  // namespace rehearse
