#include "core/program/operation_class.hpp"

#include <algorithm>
#include <array>

#include "core/base/index.hpp"

namespace rehearse {

std::string_view name_of(OperationClass c) {
  constexpr std::array<std::string_view, kOperationClasses> kNames{
      "matmul",    "convolution", "attention", "softmax",   "norm",   "elementwise", "reduction",
      "embedding", "loss",        "pool",      "optimizer", "memory", "other",       "communication"};
  return nth(kNames, c);
}

std::optional<OperationClass> class_named(std::string_view name) {
  for (int c = 0; c < kOperationClasses; ++c)
    if (name_of(static_cast<OperationClass>(c)) == name) return static_cast<OperationClass>(c);
  return std::nullopt;
}

bool is_linear_product(const ComputeTask& task) {
  constexpr std::array<std::string_view, 5> kVariants{"linear", "linear_input_grad", "linear_weight_grad",
                                                      "linear_piece", "linear_input_grad_piece"};
  return task.op == ComputeOp::matmul && std::find(kVariants.begin(), kVariants.end(), task.variant) != kVariants.end();
}

OperationClass class_of_task(const Task& task) {
  const auto* c = std::get_if<ComputeTask>(&task.kind);
  if (c == nullptr) return OperationClass::memory;
  switch (c->op) {
    case ComputeOp::matmul:
    case ComputeOp::grouped_matmul: return OperationClass::matmul;
    case ComputeOp::attention:
    case ComputeOp::attention_grad:
    case ComputeOp::attention_merge:
    case ComputeOp::attention_merge_grad: return OperationClass::attention;
    case ComputeOp::softmax:
    case ComputeOp::softmax_grad: return OperationClass::softmax;
    case ComputeOp::norm:
    case ComputeOp::norm_grad:
    case ComputeOp::statistics: return OperationClass::norm;
    case ComputeOp::embedding:
    case ComputeOp::embedding_grad: return OperationClass::embedding;
    case ComputeOp::cross_entropy:
    case ComputeOp::cross_entropy_grad: return OperationClass::loss;
    case ComputeOp::convolution:
    case ComputeOp::convolution_grad: return OperationClass::convolution;
    case ComputeOp::pool:
    case ComputeOp::pool_grad: return OperationClass::pool;
    case ComputeOp::optimizer: return OperationClass::optimizer;
    case ComputeOp::square_sum:
    case ComputeOp::histogram: return OperationClass::reduction;
    default: return OperationClass::elementwise;
  }
}

}  // namespace rehearse
