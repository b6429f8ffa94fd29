#include "gpu_backend/execute/fuse/fusion.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "gpu_backend/execute/plan.hpp"
#include "gpu_backend/execute/prepared.hpp"

namespace rehearse {

namespace {

constexpr int kReach = 6;  // Instructions from one member to the next, at most.

class Finder {
 public:
  Finder(const RankPlan& plan, std::span<const Prepared> prepared, std::span<const Fusion> fusions)
      : step_(plan.step()), prepared_(prepared), fusions_(fusions), grouped_(step_.size(), false) {
    for (std::size_t i = 0; i < step_.size(); ++i)
      for (const PlannedOperand& o : step_[i].operands) users_[o.slot].push_back(static_cast<int>(i));
    for (std::size_t s = 0; s < plan.slots().size(); ++s) persistent_.push_back(plan.slots()[s].persistent);
  }

  std::vector<FusedGroup> all() {
    std::vector<FusedGroup> out;
    for (int i = 0; i < static_cast<int>(step_.size()); ++i) {
      for (const Fusion& how : fusions_) {
        auto group = at(i, how);
        if (!group) continue;
        for (const int m : group->members) nth(grouped_, m) = true;
        out.push_back(std::move(*group));
        break;
      }
    }
    return out;
  }

 private:
  [[nodiscard]] bool is(int i, std::string_view operator_named) const {
    const Instruction& in = nth(step_, i);
    const auto* task = std::get_if<ComputeTask>(&in.task->kind);
    return task != nullptr && !nth(grouped_, i) && nth(prepared_, i).clear == nullptr &&
           operator_name(*task) == operator_named;
  }

  [[nodiscard]] std::optional<FusedGroup> at(int first, const Fusion& how) const {
    if (!is(first, how.operators.front())) return std::nullopt;
    FusedGroup out;
    out.how = &how, out.members = {first};
    for (std::size_t next = 1; next < how.operators.size(); ++next) {
      const int end = std::min(static_cast<int>(step_.size()), out.members.back() + kReach + 1);
      int found = -1;
      for (int i = out.members.back() + 1; i < end && found < 0; ++i)
        if (nth(step_, i).task->stream == nth(step_, first).task->stream && is(i, how.operators[next])) found = i;
      if (found < 0) return std::nullopt;
      out.members.push_back(found);
    }
    if (!may_be_late(out.members)) return std::nullopt;
    describe(out);
    return how.takes == nullptr || how.takes(out.calls(prepared_)) ? std::optional(std::move(out)) : std::nullopt;
  }

  /// Whether members may be done at the place of the last.
  [[nodiscard]] bool may_be_late(const std::vector<int>& members) const {
    for (int i = members.front() + 1; i < members.back(); ++i) {
      if (std::find(members.begin(), members.end(), i) != members.end()) continue;
      for (const int m : members) {
        if (m > i) break;
        const Instruction &late = nth(step_, m), &between = nth(step_, i);
        if (std::find(between.after.begin(), between.after.end(), m) != between.after.end()) return false;
        for (const PlannedOperand& a : late.operands)
          for (const PlannedOperand& b : between.operands)
            if (a.slot == b.slot && (a.access != Access::read || b.access != Access::read)) return false;
      }
    }
    return true;
  }

  /// Whether no task but these uses a slot.
  [[nodiscard]] bool own(int slot, const std::vector<int>& members) const {
    if (nth(persistent_, slot)) return false;
    const std::vector<int>& users = users_.at(slot);
    return std::all_of(users.begin(), users.end(),
                       [&](int user) { return std::find(members.begin(), members.end(), user) != members.end(); });
  }

  void describe(FusedGroup& group) const {
    for (const int m : group.members) {
      group.places.emplace_back(), group.unseen.emplace_back(), group.spent.emplace_back();
      for (const PlannedOperand& o : nth(step_, m).operands) {
        group.places.back().push_back({o.slot, o.first, o.held->elements()});
        group.unseen.back().push_back(own(o.slot, group.members));
        group.spent.back().push_back(!nth(persistent_, o.slot) && users_.at(o.slot).back() <= group.members.back());
      }
    }
  }

  const std::vector<Instruction>& step_;
  std::span<const Prepared> prepared_;
  std::span<const Fusion> fusions_;
  std::vector<bool> grouped_, persistent_;
  std::map<int, std::vector<int>> users_;  ///< Instructions, by slot.
};

}  // namespace

std::vector<FusedCall> FusedGroup::calls(std::span<const Prepared> prepared) const {
  std::vector<FusedCall> out;
  for (std::size_t m = 0; m < members.size(); ++m)
    out.push_back({nth(prepared, members[m]).call, places[m], unseen[m], spent[m]});
  return out;
}

std::vector<FusedGroup> fused_groups(const RankPlan& plan, std::span<const Prepared> prepared,
                                     std::span<const Fusion> fusions) {
  return Finder(plan, prepared, fusions).all();
}

}  // namespace rehearse
