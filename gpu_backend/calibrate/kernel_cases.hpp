#pragma once
// What calibration measures of kernels: operators at sizes, ready to be called on a device.

#include <memory>
#include <string>
#include <vector>

#include "core/price/kernels/sized_operation.hpp"
#include "gpu_backend/calibrate/probes.hpp"
#include "gpu_backend/execute/device.hpp"

namespace rehearse {

/// One operator at one size.
struct KernelCase {
  /// Where memory behind operands is when the task begins.
  enum class State : std::uint8_t {
    kept,    ///< In memory, not in any cache: parameters, and what backward finds of forward, much other work ago.
    passed,  ///< In the core's own cache: made by the task before.
    saved,   ///< Written, for later; in memory.
    scratch  ///< Written, where tasks shortly before wrote; in the shared cache.
  };
  struct Buffer {
    std::int64_t elements = 0;
    ElementType type = ElementType::real32;
    State state = State::passed;
    bool updated = false;        ///< Restored before every call, so that a function of itself stays where it was.
    bool positive = false;       ///< Roots and logarithms are taken of it; else numbers are of either sign.
    std::int64_t ids_below = 1;  ///< Integers are drawn below it.
  };
  struct Place {
    std::size_t buffer = 0, offset = 0;
  };  ///< Of an operand; the offset in bytes.

  SizedOperation what;  ///< One repeat.
  /// What it is measured in: the run's type, or the plan's where the device stores what plans say.
  DType arithmetic = DType::fp32;
  const Operator* op = nullptr;
  OperatorCall call;  ///< Without addresses.
  std::vector<Buffer> buffers;
  std::vector<Place> places;          ///< Of each operand.
  std::shared_ptr<const void> owner;  ///< What `call` points into.
};

/// Every operator of `device` that a probe holds or that multiplies by weights, each size once.
[[nodiscard]] std::vector<KernelCase> kernel_cases(const ComputeDevice& device, const ProbeGrid& grid);
[[nodiscard]] inline std::vector<KernelCase> kernel_cases(const ComputeDevice& device) {
  return kernel_cases(device, small_grid());
}

/// A product of `m` tokens with a weight [n, k]: "linear", or the gradients "linear_input_grad" and
/// "linear_weight_grad", for which m, n and k are those of the product itself. `bias`: a number per output is added; of
/// "linear" only.
[[nodiscard]] KernelCase product_case(const ComputeDevice& device, const std::string& variant, std::int64_t m,
                                      std::int64_t n, std::int64_t k, bool bias = false);

}  // namespace rehearse
