#pragma once
// What kind of work a kernel does, in the words that traces of real runs and simulated ones share.

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/program/task.hpp"

namespace rehearse {

/// What kind of work a kernel does, as far as its name tells. `memory` are copies and fills by the copy engines,
/// `other` is what no rule knows.
enum class OperationClass : std::uint8_t {
  matmul,
  convolution,
  attention,
  softmax,
  norm,
  elementwise,
  reduction,
  embedding,
  loss,
  pool,
  optimizer,
  memory,
  other,
  communication
};
inline constexpr int kOperationClasses = 14;
[[nodiscard]] std::string_view name_of(OperationClass c);
/// The class of that name; nullopt where there is none.
[[nodiscard]] std::optional<OperationClass> class_named(std::string_view name);

/// Whether it is a product of a linear layer, whole or in pieces, with its weight as an operand or a result.
[[nodiscard]] bool is_linear_product(const ComputeTask& task);

/// The class that a task's kernels have in a trace of a real run.
[[nodiscard]] OperationClass class_of_task(const Task& task);

}  // namespace rehearse
