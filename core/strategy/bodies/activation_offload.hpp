#pragma once
// Activations in host memory: what the layers of a stage keep for backward is copied out after their forward and
// brought back before their backward, on copy streams beside the compute of their neighbours.
//
// Device memory then holds what two neighbours keep, in place of all layers: a layer's storage goes once its copy is
// out, for which the forward two layers on waits; a layer is brought back under the backward of the one behind it.
// Where PCIe is slower than compute, those waits set the pace. Transformer Engine's CPU offloading and DeepSpeed's
// cpu_checkpointing work so; with full recomputation a layer's input is all there is to move.

#include <map>
#include <set>

#include "core/base/index.hpp"
#include "core/strategy/roles/roles.hpp"

namespace rehearse {

class ActivationOffload {
 public:
  using Made = StepBodies::Made;
  ActivationOffload(ProgramFrame& frame, const RolePlan& plan) : frame_(frame), plan_(plan) {}

  /// Chooses among the positions of a chunk; none where activations stay.
  void add(const ChunkPlacement& chunk);
  /// Whether what the block at `position` keeps is moved.
  [[nodiscard]] bool moves(int position) const { return moved_.count(position) != 0; }
  [[nodiscard]] bool any() const { return !moved_.empty(); }
  /// The position whose backward, or whose group's, reads it first.
  [[nodiscard]] int needed_by(int position) const;
  /// The moved position, not below `lowest`, that is needed first after the backward of `position`; -1 where there is
  /// none.
  [[nodiscard]] int next_needed(int position, int lowest) const;
  /// Copies to the host and frees the device's; back, and frees the host's.
  Made out(int position) { return both(position).out; }
  Made in(int position) { return both(position).in; }

 private:
  struct Both {
    Made out{-1, -1}, in{-1, -1};
  };
  [[nodiscard]] std::vector<int> kept_at(int position) const;
  const Both& both(int position);
  int host_copy(int tensor);

  ProgramFrame& frame_;
  const RolePlan& plan_;
  std::set<int> moved_;
  std::map<std::vector<int>, Both> made_;
};

}  // namespace rehearse
