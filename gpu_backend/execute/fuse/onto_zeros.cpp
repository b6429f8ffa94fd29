#include "gpu_backend/execute/fuse/onto_zeros.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "gpu_backend/execute/operator.hpp"
#include "gpu_backend/train/initial.hpp"

namespace rehearse {

namespace {

/// Elements [first, first + elements) of a slot, used by an instruction.
struct Use {
  int instruction;
  std::int64_t first, elements;
};

const ComputeTask* compute_of(const Instruction& in) { return std::get_if<ComputeTask>(&in.task->kind); }

bool overlap(const Use& use, const PlannedOperand& o) {
  return use.first < o.first + o.held->elements() && o.first < use.first + use.elements;
}
bool covers(const Use& use, const PlannedOperand& o) {
  return use.first <= o.first && o.first + o.held->elements() <= use.first + use.elements;
}

}  // namespace

std::vector<bool> adds_to_zeros(const RankPlan& plan) {
  const auto& step = plan.step();
  std::vector<std::vector<Use>> uses(plan.slots().size());
  for (std::size_t i = 0; i < step.size(); ++i)
    for (const PlannedOperand& o : step[i].operands)
      nth(uses, o.slot).push_back({static_cast<int>(i), o.first, o.held->elements()});

  const auto found_as_zeros = [&](int instruction, const PlannedOperand& o) {
    const StorageSlot& slot = nth(plan.slots(), o.slot);
    if (!slot.persistent || !begins_as_zeros(nth(plan.program().tensors, slot.tensor))) return false;
    const Use* last = nullptr;
    for (const Use& use : nth(uses, o.slot)) {
      if (!overlap(use, o)) continue;
      if (last == nullptr && use.instruction != instruction) return false;  // Somebody came before.
      last = &use;
    }
    const ComputeTask* task = last != nullptr ? compute_of(nth(step, last->instruction)) : nullptr;
    return task != nullptr && operator_name(*task) == "fill.zeros" && covers(*last, o);
  };
  std::vector<bool> out;
  for (std::size_t i = 0; i < step.size(); ++i) {
    const ComputeTask* task = compute_of(step[i]);
    out.push_back(task != nullptr && task->accumulates &&
                  std::all_of(step[i].operands.begin(), step[i].operands.end(), [&](const PlannedOperand& o) {
                    return o.access != Access::update || found_as_zeros(static_cast<int>(i), o);
                  }));
  }
  return out;
}

}  // namespace rehearse
