#pragma once
// A kernel case with its memory on a device, called again and again with caches as a step leaves them.

#include <memory>
#include <vector>

#include "core/base/units.hpp"
#include "gpu_backend/calibrate/kernel_cases.hpp"

namespace rehearse {

/// Other memory than any kernel's: walking over it leaves nothing else in the caches that processors share.
class OtherMemory {
 public:
  OtherMemory();
  void walk() const;

 private:
  std::vector<std::byte> bytes_;
};

/// What a core has to itself.
[[nodiscard]] Bytes own_cache();

class KernelRun {
 public:
  /// The first `cold` calls find operands where KernelCase::State says, if OtherMemory was walked over between
  /// construction and calls: they have memory of their own each. 0: all calls use what the call before has left in
  /// caches. On devices that queue, parameters are used in turn either way.
  KernelRun(ComputeDevice& device, const KernelCase& what, int cold = 0);
  /// Seconds of one call; on a device that queues, of one among several that wait for it in line.
  double once();
  /// Puts one call on stream 0.
  EventPtr submit();

  /// Bytes of one cold call's own memory.
  [[nodiscard]] static std::size_t cold_bytes(const KernelCase& what);

 private:
  /// What a function of itself adds to is as it was; a core's own cache holds what the task before has made.
  void prepare();

  ComputeDevice& device_;
  const KernelCase& case_;
  bool cold_;
  Observations observed_;
  /// By buffer: copies that are used in turn; none where it is allocated for every call.
  std::vector<std::vector<std::shared_ptr<Storage>>> memory_;
  std::vector<std::vector<std::byte>> originals_;  ///< By buffer: of those that are restored.
  std::vector<std::byte> own_cache_;               ///< Walked over to empty it.
  std::size_t turn_ = 0;
  int in_line_ = 1;  ///< Calls in one measurement.
};

}  // namespace rehearse
