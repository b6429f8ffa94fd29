#pragma once
// Operators: what a device does for one compute task. Adding one is one file that registers one entry in the device's
// table.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/program/held.hpp"
#include "core/program/task.hpp"
#include "gpu_backend/execute/numerics.hpp"
#include "gpu_backend/execute/random.hpp"

namespace rehearse {

/// One operand as a kernel sees it. Storage is row-major and contiguous; a flat slice has the one extent `elements`.
struct TensorView {
  std::byte* data = nullptr;
  ElementType type = ElementType::real32;
  Access access = Access::read;
  const Tensor* tensor = nullptr;
  const Held* held = nullptr;  ///< Which global elements these are.
  int layer = 0;               ///< Block position of the instance.
  /// Elements from where a row begins to where the next does, where rows of several tensors lie side by side
  /// (fuse/side_by_side.hpp); 0: rows lie one after the other. A row is what the dimensions from 2 on hold.
  std::int64_t apart = 0;
  /// Number of what it holds, among all that tensors come to hold in a step: operands of one number hold the same. -1:
  /// not known.
  int value = -1;

  [[nodiscard]] std::int64_t elements() const { return held->elements(); }
  [[nodiscard]] std::size_t rank() const { return held->extents.size(); }
  [[nodiscard]] std::int64_t extent(std::size_t d) const { return held->extents[d]; }
  /// Product of the extents from dimension `d` on.
  [[nodiscard]] std::int64_t from(std::size_t d) const;
  /// Elements from row to row, of `width` each.
  [[nodiscard]] std::int64_t row_stride(std::int64_t width) const { return apart > 0 ? apart : width; }
  [[nodiscard]] bool writes() const { return access != Access::read; }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

/// What a rank observes of a step, besides its tensors.
struct Observations {
  double loss_sum = 0;      ///< Sum over the tokens whose loss this rank computed.
  std::int64_t tokens = 0;  ///< How many those are.
  double norm_squared = 0;  ///< Of the gradients of all ranks, where they are clipped.
};

/// What the host has read of a step's tensors of integers, by TensorView::value: reading them waits for the device.
using ReadByHost = std::map<int, std::vector<std::int64_t>>;

/// Where a device launches what an operator asks for; each device knows its own.
struct LaunchContext;

/// Random numbers of one task, for any step.
struct TaskRandom {
  RandomKey task;  ///< Of the run's seed and the task's name.
  std::uint64_t layer = 0;
  std::uint64_t pass = 0;  ///< 0: the only one.
  [[nodiscard]] RandomKey at(std::int64_t step) const {
    const RandomKey key = task.with(static_cast<std::uint64_t>(step)).with(layer);
    return pass > 0 ? key.with(pass) : key;
  }
};

/// One call.
struct OperatorCall {
  const ComputeTask* task = nullptr;
  std::vector<TensorView> operands;  ///< In the task's order.
  std::vector<std::int64_t> dims;    ///< ComputeTask::dims and offsets, evaluated on this rank.
  std::vector<std::int64_t> offsets;
  RandomKey random;               ///< Of the task's numbers, for this step and layer.
  TaskRandom any_step;            ///< The same for any step, where steps are replayed.
  std::int64_t first_sample = 0;  ///< Global index, in the step, of sample 0 of the microbatch.
  std::int64_t step = 0;
  /// Whether this rank is the first of those that hold the same elements of operand 0.
  bool first_replica = true;
  Observations* observed = nullptr;
  ReadByHost* read = nullptr;  ///< Of this step.
  /// Whether all that the task adds to is zeros: it may overwrite instead.
  bool onto_zeros = false;
  /// Set by devices that launch; null on the CPU, whose operators compute before they return.
  LaunchContext* launch = nullptr;

  [[nodiscard]] const TensorView& operand(std::size_t i) const { return operands.at(i); }
};

/// A device's implementation. It may assume the operands that gpu_backend/README.md lists for its name.
struct Operator {
  void (*run32)(const OperatorCall&) = nullptr;
  void (*run64)(const OperatorCall&) = nullptr;
  /// Does beforehand what may not wait until a step is under way (ComputeDevice::prepare); null: nothing.
  void (*prepare)(const OperatorCall&) = nullptr;
  /// Operands, by number, that it does at once where they lie side by side in this order. Null: none.
  std::vector<std::size_t> (*beside)(const OperatorCall&) = nullptr;
  /// Whether rows of an operand may lie apart (TensorView::apart). Null: of none.
  bool (*takes_apart)(const OperatorCall&, std::size_t operand) = nullptr;
  void operator()(const OperatorCall& call, Numerics numerics) const {
    (numerics == Numerics::fp64 ? run64 : run32)(call);
  }
};

/// Name in a device's table: "matmul.linear", or the op alone where the task has no variant.
[[nodiscard]] std::string operator_name(const ComputeTask& task);

}  // namespace rehearse
