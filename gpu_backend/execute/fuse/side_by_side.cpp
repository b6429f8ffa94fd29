#include "gpu_backend/execute/fuse/side_by_side.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "core/base/index.hpp"
#include "gpu_backend/execute/prepared.hpp"

namespace rehearse {

namespace {

// Kernels read and write so many bytes at once.
constexpr std::int64_t kAlignment = 16;

/// An operand of an instruction that uses a slot.
struct SlotUse {
  int instruction;
  std::size_t operand;
};

class SideFinder {
 public:
  SideFinder(const RankPlan& plan, std::span<const Prepared> prepared, std::span<const FusedGroup> groups)
      : plan_(plan),
        prepared_(prepared),
        groups_(groups),
        uses_(plan.slots().size()),
        freed_(plan.slots().size(), false) {
    call_of_.resize(plan.step().size());
    unseen_.resize(plan.step().size());
    for (std::size_t i = 0; i < call_of_.size(); ++i) call_of_[i] = static_cast<int>(i);
    for (const FusedGroup& g : groups)
      for (std::size_t m = 0; m < g.members.size(); ++m) {
        nth(call_of_, g.members[m]) = g.members.back();
        nth(unseen_, g.members[m]) = g.unseen[m];
      }
    for (std::size_t i = 0; i < plan.step().size(); ++i) {
      const Instruction& in = plan.step()[i];
      for (std::size_t o = 0; o < in.operands.size(); ++o)
        nth(uses_, in.operands[o].slot).push_back({static_cast<int>(i), o});
      for (const int slot : in.frees) nth(freed_, slot) = true;
      for (const PlannedOperand& v : in.values)
        if (v.slot >= 0) counts_.insert(v.slot);
    }
  }

  std::vector<SlotsSideBySide> all() {
    std::vector<SlotsSideBySide> out;
    std::vector<const PlannedOperand*> wanted;
    const auto take = [&] {
      if (auto found = together(wanted)) {
        taken_.insert(found->slots.begin(), found->slots.end());
        out.push_back(std::move(*found));
      }
      wanted.clear();
    };
    for (const FusedGroup& g : groups_) {
      if (g.how->beside == nullptr) continue;
      for (const FusedOperand& o : g.how->beside(g.calls(prepared_)))
        wanted.push_back(&operand(g.members[o.task], o.operand));
      take();
    }
    for (std::size_t i = 0; i < prepared_.size(); ++i) {
      const Prepared& task = prepared_[i];
      if (task.op == nullptr || task.op->beside == nullptr) continue;
      for (const std::size_t o : task.op->beside(task.call)) wanted.push_back(&operand(static_cast<int>(i), o));
      take();
    }
    return out;
  }

 private:
  [[nodiscard]] const PlannedOperand& operand(int instruction, std::size_t number) const {
    return nth(plan_.step(), instruction).operands.at(number);
  }
  [[nodiscard]] std::optional<SlotsSideBySide> together(const std::vector<const PlannedOperand*>& wanted) const {
    SlotsSideBySide out;
    const PlannedOperand* first = wanted.empty() ? nullptr : wanted.front();
    for (const PlannedOperand* o : wanted) {
      if (!is_whole(*o) || !alike(*first, *o) || taken_.contains(o->slot) || !all_take_apart(*o) ||
          first_call(o->slot) != first_call(first->slot) || last_call(o->slot) != last_call(first->slot) ||
          std::find(out.slots.begin(), out.slots.end(), o->slot) != out.slots.end())
        return std::nullopt;
      const std::int64_t width = o->held->elements() / rows_of(*o);
      if (width * static_cast<std::int64_t>(size_of(type_of(*o))) % kAlignment != 0) return std::nullopt;
      out.slots.push_back(o->slot);
      out.offsets.push_back(out.apart);
      out.apart += width;
    }
    if (out.slots.size() < 2) return std::nullopt;
    out.rows = rows_of(*first);
    return out;
  }

  [[nodiscard]] const Tensor& tensor(const PlannedOperand& o) const { return nth(plan_.program().tensors, o.tensor); }
  [[nodiscard]] ElementType type_of(const PlannedOperand& o) const {
    const SlotUse& use = nth(uses_, o.slot).front();
    return nth(prepared_, use.instruction).call.operand(use.operand).type;
  }
  [[nodiscard]] static std::int64_t rows_of(const PlannedOperand& o) { return o.held->extents[0] * o.held->extents[1]; }
  /// All of a slot of device memory that the step takes and gives back: samples, tokens and what each of those has.
  [[nodiscard]] bool is_whole(const PlannedOperand& o) const {
    const StorageSlot& slot = nth(plan_.slots(), o.slot);
    return !slot.persistent && nth(freed_, o.slot) && !counts_.contains(o.slot) && o.first == 0 &&
           o.held->elements() == slot.elements && slot.elements > 0 && !o.held->haloed() &&
           o.held->extents.size() >= 3 && tensor(o).space == MemorySpace::device;
  }
  [[nodiscard]] bool alike(const PlannedOperand& a, const PlannedOperand& b) const {
    return a.held->extents[0] == b.held->extents[0] && a.held->extents[1] == b.held->extents[1] &&
           tensor(a).dtype == tensor(b).dtype;
  }
  [[nodiscard]] bool all_take_apart(const PlannedOperand& wanted) const {
    const std::vector<SlotUse>& uses = nth(uses_, wanted.slot);
    return std::all_of(uses.begin(), uses.end(), [&](const SlotUse& use) {
      const Prepared& task = nth(prepared_, use.instruction);
      const PlannedOperand& o = operand(use.instruction, use.operand);
      return task.op != nullptr && task.clear == nullptr && task.op->takes_apart != nullptr &&
             task.op->takes_apart(task.call, use.operand) && is_whole(o) && alike(wanted, o) && !is_unseen(use);
    });
  }
  [[nodiscard]] bool is_unseen(const SlotUse& use) const {
    const std::vector<bool>& of = nth(unseen_, use.instruction);
    return !of.empty() && of[use.operand];
  }
  [[nodiscard]] int first_call(int slot) const {
    int out = static_cast<int>(call_of_.size());
    for (const SlotUse& use : nth(uses_, slot)) out = std::min(out, nth(call_of_, use.instruction));
    return out;
  }
  [[nodiscard]] int last_call(int slot) const {
    int out = -1;
    for (const SlotUse& use : nth(uses_, slot)) out = std::max(out, nth(call_of_, use.instruction));
    return out;
  }

  const RankPlan& plan_;
  std::span<const Prepared> prepared_;
  std::span<const FusedGroup> groups_;
  std::vector<std::vector<SlotUse>> uses_;  ///< By slot.
  std::vector<bool> freed_;                 ///< By slot.
  std::vector<int> call_of_;                ///< By instruction: itself, or the last of its group.
  std::vector<std::vector<bool>> unseen_;   ///< By instruction in a group, by operand.
  std::set<int> taken_, counts_;
};

/// A part of storage that others share.
class PartOfStorage final : public Storage {
 public:
  PartOfStorage(std::shared_ptr<Storage> whole, std::size_t offset) : whole_(std::move(whole)), offset_(offset) {}
  std::byte* data() override { return whole_->data() + offset_; }

 private:
  std::shared_ptr<Storage> whole_;
  std::size_t offset_;
};

}  // namespace

std::vector<SlotsSideBySide> side_by_side(const RankPlan& plan, std::span<const Prepared> prepared,
                                          std::span<const FusedGroup> groups) {
  return SideFinder(plan, prepared, groups).all();
}

SideBySideStorage::SideBySideStorage(std::vector<SlotsSideBySide> all) : all_(std::move(all)), wholes_(all_.size()) {
  for (std::size_t n = 0; n < all_.size(); ++n)
    for (std::size_t s = 0; s < all_[n].slots.size(); ++s) places_[all_[n].slots[s]] = {n, all_[n].offsets[s]};
}

std::int64_t SideBySideStorage::apart(int slot) const {
  const auto at = places_.find(slot);
  return at == places_.end() ? 0 : all_[at->second.number].apart;
}

std::shared_ptr<Storage> SideBySideStorage::take(int slot, std::size_t each, ComputeDevice& device) {
  const Place& at = places_.at(slot);
  std::shared_ptr<Storage> whole = wholes_[at.number].lock();
  if (!whole) {
    const SlotsSideBySide& all = all_[at.number];
    whole = device.allocate(static_cast<std::size_t>(all.rows * all.apart) * each);
    wholes_[at.number] = whole;
  }
  return std::make_shared<PartOfStorage>(std::move(whole), static_cast<std::size_t>(at.offset) * each);
}

}  // namespace rehearse
