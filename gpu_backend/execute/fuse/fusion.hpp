#pragma once
// Several tasks of a step as one call of a device: a product whose epilogue does what the tasks after it do, a norm's
// gradients in one pass. A device lists what it can do so (ComputeDevice::fusions()); the executor finds where a plan
// has it. Tasks keep their places in the plan, their memory and their events: those of a group are one event.
//
//   const std::vector<FusedGroup> groups = fused_groups(plan, prepared, device.fusions());

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "gpu_backend/execute/operator.hpp"

namespace rehearse {

class RankPlan;
struct Prepared;

/// A task of a group. What `takes` and `run` of a Fusion are given.
struct FusedCall {
  OperatorCall call;  ///< Operands have addresses in `run` only; one that is `unseen` has none.
  /// Which elements of which storage each operand is: equal for operands that are the same memory.
  struct Place {
    int slot = 0;
    std::int64_t first = 0, elements = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  std::vector<Place> places;
  std::vector<bool> unseen;   ///< By operand: no task but the group's reads or writes it, so it need not be stored.
  std::vector<bool> spent{};  ///< By operand: no task after the group reads it, so it may be overwritten.
};
/// An operand of a group: number of its task in the group, and its own in the task.
struct FusedOperand {
  std::size_t task, operand;
};

/// What a device does as one call. Rows of operands may lie apart where the operators of its tasks take that.
struct Fusion {
  std::string_view name;                     ///< "product and GELU", for messages.
  std::vector<std::string_view> operators;   ///< Of its tasks, in the order of a step.
  bool (*takes)(std::span<const FusedCall>)  ///< Whether it can, by what operands are. Null: always.
      = nullptr;
  void (*run)(std::span<const FusedCall>) = nullptr;
  /// Operands that it does at once where they lie side by side in this order (side_by_side.hpp). Null: none but those
  /// that its tasks' operators would have so.
  std::vector<FusedOperand> (*beside)(std::span<const FusedCall>) = nullptr;
};

/// Tasks that are done as one, at the place of the last of them.
struct FusedGroup {
  const Fusion* how = nullptr;
  std::vector<int> members;                           ///< Instructions of the plan, ascending.
  std::vector<std::vector<FusedCall::Place>> places;  ///< By member and operand.
  std::vector<std::vector<bool>> unseen, spent;
  /// Its tasks as `takes` was given them.
  [[nodiscard]] std::vector<FusedCall> calls(std::span<const Prepared> prepared) const;
};

/// Groups of a plan that share no task. Of fusions that begin with the same task the first that fits is taken. A group
/// is made of tasks of one stream; no task between its first and its last touches what those before it write, or
/// writes what they read, or waits for them.
[[nodiscard]] std::vector<FusedGroup> fused_groups(const RankPlan& plan, std::span<const Prepared> prepared,
                                                   std::span<const Fusion> fusions);

}  // namespace rehearse
