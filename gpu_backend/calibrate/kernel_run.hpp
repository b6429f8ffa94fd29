#pragma once
// A kernel case with its memory on a device, called again and again with caches as a step leaves them.

#include <memory>
#include <vector>

#include "gpu_backend/calibrate/kernel_cases.hpp"

namespace rehearse {

class KernelRun {
 public:
  /// `as_in_a_step`: what KernelCase::Buffer says of each operand; `warm`: whatever the call before left.
  enum class Caches : std::uint8_t { as_in_a_step, warm };

  KernelRun(ComputeDevice& device, const KernelCase& what, Caches caches = Caches::as_in_a_step);
  /// Seconds of one call; on a device that queues, of one among several that wait for it in line.
  double once();
  /// Puts one call on stream 0.
  EventPtr submit();

 private:
  /// A processor's core: what it adds to is as it was, its own cache holds what the task before has made and nothing else.
  void prepare();
  void touch(const std::byte* from, std::size_t bytes);

  ComputeDevice& device_;
  const KernelCase& case_;
  Caches caches_;
  Observations observed_;
  std::vector<std::vector<std::shared_ptr<Storage>>> memory_;  ///< By buffer: copies that are used in turn.
  std::vector<std::vector<std::byte>> originals_;              ///< By buffer: of those that are restored.
  std::vector<std::byte> other_;                               ///< Walked over to empty the cache.
  std::size_t turn_ = 0;
  int in_line_ = 1;   ///< Calls in one measurement.
};

}  // namespace rehearse
