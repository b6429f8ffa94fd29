#include "gpu_backend/execute/repeats.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

const Tensor& tensor_of(const RankPlan& plan, int slot) {
  return nth(plan.program().tensors, nth(plan.slots(), slot).tensor);
}

/// A task whose sizes the host must know before it can issue it.
const Instruction* sized_by_data(const RankPlan& plan) {
  for (const Instruction& in : plan.step()) {
    const auto* c = std::get_if<ComputeTask>(&in.task->kind);
    if (!in.values.empty() || (c != nullptr && c->group_sizes >= 0)) return &in;
  }
  return nullptr;
}

/// A tensor in host memory that is not what an input task read: copies of those would be replayed to and from places
/// that the host uses for others.
const Tensor* kept_on_host(const RankPlan& plan) {
  std::set<int> inputs;
  for (const Instruction& in : plan.step())
    if (reads_input(in))
      for (const PlannedOperand& o : in.operands) inputs.insert(o.slot);
  for (std::size_t s = 0; s < plan.slots().size(); ++s) {
    const Tensor& t = tensor_of(plan, static_cast<int>(s));
    if (t.space != MemorySpace::device && !inputs.contains(static_cast<int>(s))) return &t;
  }
  return nullptr;
}

/// A tensor of a step that the step does not give back: the next would find another in its place.
const Tensor* kept_over_steps(const RankPlan& plan) {
  std::set<int> left;
  for (const Instruction& in : plan.step()) left.insert(in.allocates.begin(), in.allocates.end());
  for (const Instruction& in : plan.step())
    for (const int slot : in.frees) left.erase(slot);
  return left.empty() ? nullptr : &tensor_of(plan, *left.begin());
}

}  // namespace

std::string not_repeated_because(const RankPlan& plan, const RecordedBy& by) {
  if (!by.records_nothing_because.empty()) return by.records_nothing_because;
  if (by.ranks > 1 && !by.transport_enqueues) return "ranks talk through the host";
  if (by.observed_on_host) return "tensors are looked at in the middle of a step";
  if (const Instruction* in = sized_by_data(plan))
    return fmt::format("'{}' has sizes that only the data decides, and the host reads", name_of(*in));
  if (const Tensor* t = kept_on_host(plan)) return fmt::format("'{}' is kept in host memory", t->name);
  if (const Tensor* t = kept_over_steps(plan)) return fmt::format("'{}' is kept from step to step", t->name);
  return {};
}

}  // namespace rehearse
