#pragma once
// What calibration measures of kernels: operators at sizes, ready to be called on a device.

#include <memory>
#include <string>
#include <vector>

#include "core/cost/sized_operation.hpp"
#include "gpu_backend/calibrate/probes.hpp"
#include "gpu_backend/device.hpp"

namespace rehearse {

/// One operator at one size.
struct KernelCase {
  /// Memory behind operands. `kept` lives from step to step, as parameters do, and is cold when it is used; `fresh` is allocated for the task.
  struct Buffer { std::int64_t elements = 0; ElementType type = ElementType::real32; bool kept = false, fresh = false; };
  struct Place { std::size_t buffer = 0, offset = 0; };  ///< Of an operand; the offset in bytes.

  SizedOperation what;               ///< One repeat.
  DType arithmetic = DType::fp32;    ///< What it is measured in: the run's type, or the plan's where the device stores what plans say.
  const Operator* op = nullptr;
  OperatorCall call;                 ///< Without addresses.
  std::vector<Buffer> buffers;
  std::vector<Place> places;         ///< Of each operand.
  std::shared_ptr<const void> owner; ///< What `call` points into.
};

/// Every operator of `device` that a probe holds or that multiplies by weights, each size once.
[[nodiscard]] std::vector<KernelCase> kernel_cases(const ComputeDevice& device, const ProbeGrid& grid);
[[nodiscard]] inline std::vector<KernelCase> kernel_cases(const ComputeDevice& device) { return kernel_cases(device, small_grid()); }

/// A product of `m` tokens with a weight [n, k]: "linear", or the gradients "linear_input_grad" and "linear_weight_grad", for which m, n and
/// k are those of the product itself. `bias`: a number per output is added; of "linear" only.
[[nodiscard]] KernelCase product_case(const ComputeDevice& device, const std::string& variant, std::int64_t m, std::int64_t n, std::int64_t k, bool bias = false);

/// A case with its memory on a device: call it again and again.
class KernelRun {
 public:
  KernelRun(ComputeDevice& device, const KernelCase& what);
  /// Seconds of one call; on a device that queues, of one among several that wait for it in line.
  double once();
  /// Puts one call on stream 0.
  EventPtr submit();

 private:
  ComputeDevice& device_;
  const KernelCase& case_;
  Observations observed_;
  std::vector<std::vector<std::shared_ptr<Storage>>> memory_;  ///< By buffer: copies that are used in turn.
  std::size_t turn_ = 0;
  int in_line_ = 1;   ///< Calls in one measurement.
};

}  // namespace rehearse
