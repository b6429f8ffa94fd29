#pragma once
// What a Program's compute task is to the kernel model: its class and category, its sizes and its traffic.

#include <set>
#include <string>

#include "core/price/cost_model.hpp"
#include "core/program/body.hpp"

namespace rehearse {

/// The kernel class that prices a task, by its operator and variant.
[[nodiscard]] KernelClass class_of(const ComputeTask& task);
/// Where a step's breakdown counts it.
[[nodiscard]] TimeCategory category_of(const Program& program, const ComputeTask& task, Phase phase);

/// Bytes of all operands that a task reads and writes, once each.
struct TaskTraffic {
  double read = 0, written = 0;
};
[[nodiscard]] TaskTraffic traffic_of(const Program& program, const Task& task, const Body& body, const ExprContext& at);

/// The kernel of `compute`, which is the work of `task`, on the rank of `at`.
[[nodiscard]] Kernel kernel_of(const Program& program, const Task& task, const Body& body, const ComputeTask& compute,
                               const ExprContext& at);

/// Names of the calibration groups that a Program's kernels read.
[[nodiscard]] std::set<std::string, std::less<>> calibration_groups(const Program& program);

}  // namespace rehearse
