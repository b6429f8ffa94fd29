#pragma once
// A Program as one rank executes it: its role's entries flattened to tasks in issue order, with storage, dependencies
// and sizes worked out once. A step is a walk over this list.

#include <array>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/program/held.hpp"
#include "core/program/program.hpp"
#include "gpu_backend/communicate/transfer.hpp"

namespace rehearse {

/// A piece of storage: a persistent tensor's, or one that tasks of a step allocate and free.
struct StorageSlot {
  int tensor = 0;
  int layer = -1;  ///< Of the instance; -1: not per layer.
  std::int64_t elements = 0;
  double bytes = 0;  ///< In the Program's own type: what its memory figures count.
  bool persistent = false;
};

/// One operand: `held.elements()` elements of a slot from `first` on.
struct PlannedOperand {
  int slot = 0;
  std::int64_t first = 0;
  int tensor = 0;
  int layer = 0;
  const Held* held = nullptr;
  Access access = Access::read;
  /// Of the slot, where the operand is what stands inside a halo; empty where it is one block.
  Blocks within;
};

struct Instruction {
  const Entry* entry = nullptr;
  const Body* body = nullptr;
  int task_number = 0;
  const Task* task = nullptr;
  ExprContext at;
  std::vector<PlannedOperand> operands;
  /// Where the counts of the task ask for dynamic dimensions: the tensor of each, by number; slot -1 for others.
  std::vector<PlannedOperand> values;
  std::vector<int> after;             ///< Instructions of this step, on other streams.
  std::vector<int> after_previous;    ///< Instructions of the step before.
  std::vector<int> allocates, frees;  ///< Slots, at issue: before and after this task.
};

[[nodiscard]] inline bool computes(const Instruction& in) { return std::holds_alternative<ComputeTask>(in.task->kind); }
[[nodiscard]] inline bool reads_input(const Instruction& in) {
  return std::holds_alternative<InputTask>(in.task->kind);
}
/// Of its body and task, as in traces: "layer.forward/attention.qkv".
[[nodiscard]] std::string name_of(const Instruction& in);

class RankPlan {
 public:
  /// Memory is planned for the bounds of sizes that only the data decides. Throws Error (unavailable) that names what
  /// the Program needs and no device here can do: a listed gap.
  RankPlan(const Program& program, int rank);

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] const Role& role() const;
  [[nodiscard]] const std::vector<StorageSlot>& slots() const { return slots_; }
  [[nodiscard]] const std::vector<Instruction>& step() const { return step_; }
  /// What a rank holds of a tensor, kept for the life of the plan.
  const Held* held_by(int tensor, const ExprContext& at);

 private:
  friend class PlanBuilder;
  std::unique_ptr<const Program> bounded_;  ///< Where sizes are dynamic.
  const Program& program_;
  int rank_;
  std::vector<StorageSlot> slots_;
  std::vector<Instruction> step_;
  /// By tensor and place on the mesh.
  std::map<std::pair<int, std::array<std::int32_t, kAxisCount>>, std::unique_ptr<Held>> held_;
};

}  // namespace rehearse
