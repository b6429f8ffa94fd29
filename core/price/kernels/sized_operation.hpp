#pragma once
// What a compute task asks of a device, as a device profile measures it: operators by name, each with the few sizes
// that its time depends on. Sizes are counts of elements on one rank, so they don't depend on the type that a device
// stores.
//
//   products of weights          m, n, k; an operator with several outputs is one product per output
//   products of attention        heads (of all sequences), length (geometric mean of queries and keys), head_dim
//   flash attention              the same
//   softmax                      heads, length
//   norm, cross entropy, lookups rows, width
//   all others                   elements of all operands together

#include <string>
#include <vector>

#include "core/program/program.hpp"

namespace rehearse {

/// `repeats` calls of one operator at one size.
struct SizedOperation {
  std::string name;  ///< "matmul.linear", "norm_grad.layer_norm+accumulate", "attention.flash+causal"
  std::vector<std::string> axes;
  std::vector<double> size;  ///< Along each axis, above zero.
  double repeats = 1;
};

/// Name in a device's table of operators: "matmul.linear", or the op alone where the task has no variant.
[[nodiscard]] std::string operation_name(const ComputeTask& task);

/// The same, and what else makes it another operator to a profile: "norm_grad.layer_norm+accumulate",
/// "attention.flash+causal".
[[nodiscard]] std::string measured_name(const ComputeTask& task);

/// What task `task` of `body` is at `at`; empty where a rank has nothing to do.
[[nodiscard]] std::vector<SizedOperation> sized_operations(const Program& program, const Task& task, const Body& body,
                                                           const ExprContext& at);

}  // namespace rehearse
