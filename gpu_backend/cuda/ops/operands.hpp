#pragma once
// What operators tell kernels about their operands.

#include <bit>
#include <cmath>

#include "core/base/error.hpp"
#include "gpu_backend/cuda/cuda_device.hpp"
#include "gpu_backend/cuda/kernels/kernels.hpp"
#include "gpu_backend/cuda/launch_context.hpp"
#include "gpu_backend/execute/operands.hpp"

namespace rehearse::cuda {

/// Kernels choose by the operands' types, whatever the numerics.
[[nodiscard]] inline Operator any(void (*run)(const OperatorCall&), void (*prepare)(const OperatorCall&) = nullptr) {
  return {run, run, prepare};
}
/// Rows of some of its operands may lie apart, and some it would have side by side.
[[nodiscard]] inline Operator apart(Operator from, bool (*takes)(const OperatorCall&, std::size_t operand),
                                    std::vector<std::size_t> (*beside)(const OperatorCall&) = nullptr) {
  from.takes_apart = takes, from.beside = beside;
  return from;
}

[[nodiscard]] inline cudaStream_t stream(const OperatorCall& c) { return c.launch->stream; }
[[nodiscard]] inline Reals reals(const TensorView& x) { return {x.data, x.type}; }
[[nodiscard]] inline const std::int64_t* integers(const TensorView& x) { return x.as<const std::int64_t>(); }
/// Whether products of the task may round their operands to tf32.
[[nodiscard]] inline bool in_tf32(const OperatorCall& c) { return c.task->arithmetic == DType::tf32; }
[[nodiscard]] inline std::int64_t width(const TensorView& x) { return x.extent(x.rank() - 1); }

/// Throws Error (unavailable) for a dimension that a rank holds in more than two runs.
[[nodiscard]] inline Line line(const TensorView& x, std::size_t d) {
  const Runs& runs = x.held->global[d];
  if (runs.size() > 2)
    throw Error(ErrorKind::unavailable, "tensors held in more than two pieces of a dimension", "cuda");
  if (runs.empty()) return {};
  const std::int64_t after = runs[0].first + runs[0].length;
  return {runs[0].first, runs.size() > 1 && runs[1].first != after ? runs[0].length : x.extent(d),
          runs.size() > 1 ? runs[1].first : after};
}

[[nodiscard]] inline GlobalElements global_elements(const TensorView& x) {
  GlobalElements out;
  out.rank = static_cast<int>(x.rank());
  if (out.rank > GlobalElements::kMaxRank)
    throw Error(ErrorKind::unavailable, "random numbers for tensors of more than five dimensions", "cuda");
  std::int64_t stride = 1;
  for (std::size_t d = x.rank(); d-- > 0;) {
    out.extents[d] = x.extent(d);
    out.strides[d] = stride;
    out.lines[d] = line(x, d);
    stride *= x.held->shape[d];
  }
  out.flat = x.held->flat.first;
  return out;
}

/// Of an update whose scalar 1 it is: vectors (biases, norms) have none.
[[nodiscard]] inline double decay_of(const OperatorCall& c, const TensorView& weights) {
  return is_matrix(weights) ? c.task->scalars.at(1) : 0.0;
}

/// Scratch of a task that goes through many tensors one after the other: what one has used is there for the next, in
/// order of the stream.
class ScratchInTurn {
 public:
  explicit ScratchInTurn(const OperatorCall& c) : launch_(*c.launch) {}
  [[nodiscard]] void* of(std::size_t bytes) {
    if (block_ == nullptr || bytes > bytes_) block_ = launch_.scratch(bytes), bytes_ = bytes;
    return block_;
  }

 private:
  LaunchContext& launch_;
  void* block_ = nullptr;
  std::size_t bytes_ = 0;
};

/// `now`, and for other steps `of(step)`: what kernels may not be told once for all steps.
template <class T, class F>
[[nodiscard]] PerStep<T> per_step(const OperatorCall& c, T now, F of) {
  static_assert(sizeof(T) == sizeof(std::uint64_t));
  return {now, static_cast<const T*>(
                   c.launch->changing([of](std::int64_t step) { return std::bit_cast<std::uint64_t>(of(step)); }))};
}

/// 1 - beta^t, t steps from the start: moments begin at zero.
[[nodiscard]] inline PerStep<double> correction(const OperatorCall& c, double beta) {
  const auto at = [beta](std::int64_t step) { return 1 - std::pow(beta, static_cast<double>(step + 1)); };
  return per_step(c, at(c.step), at);
}

/// Dropout of a task; `base` is what counts the samples before the microbatch.
[[nodiscard]] inline Dropout dropout_of(const OperatorCall& c, std::int64_t base) {
  Dropout out;
  const double p = c.task->probability;
  if (p > 0) out.key = per_step(c, c.random, [any = c.any_step](std::int64_t step) { return any.at(step); });
  out.threshold = static_cast<std::uint64_t>(std::ceil(p * 0x1.0p53));
  out.scale = 1 / (1 - p);
  out.base = base;
  return out;
}

}  // namespace rehearse::cuda
