#pragma once
// The parameters of one stage and the way of their gradients: which are reduced together, when, and where they go then.

#include <map>
#include <optional>
#include <set>

#include "core/strategy/roles/role_entries.hpp"
#include "core/strategy/roles/roles.hpp"
#include "core/strategy/roles/unit_plan.hpp"

namespace rehearse {

class StageGradients {
 public:
  StageGradients(ProgramFrame& frame, StepBodies& step, const RolePlan& plan, int stage, RoleEntries& entries,
                 const UnitPlan& units);

  /// Reads off the schedule which pass makes a chunk's gradients final, and fills buckets in that order.
  void plan(const std::vector<Slot>& slots);

  [[nodiscard]] const std::vector<ParamRef>& params() const { return params_; }
  /// Position and tensor of fp8 scales.
  [[nodiscard]] const std::vector<std::pair<int, int>>& scales() const { return scales_; }
  [[nodiscard]] bool every_microbatch() const { return every_; }
  /// Whether `slot` is the last of the step to add to its chunk's gradients.
  [[nodiscard]] bool is_last(const Slot& slot) const;
  /// A backward's bindings, with storage for the gradients that have none.
  int with_storage(int bindings, int position);
  /// Whether the pass of `position` in `slot` is followed by reductions.
  [[nodiscard]] bool closes(const Slot& slot, int position) const;
  /// Adds what follows it: reductions, copies to the host. `done` is its end.
  void finished(const Slot& slot, int position, EventId done);
  /// The same for a position whose gradients were final only after the last backward pass.
  void finished_late(int position, EventId done);
  /// Updates of parameters whose gradients are final (LayoutPlan::updates_in_backward). Returns the last one's event.
  EventId update_early();
  /// Reduces what was not reduced on the way.
  void reduce_rest(EventId after);
  /// Sends to the host what has not gone there.
  void send_rest_to_host(const std::vector<Wait>& ready);

  [[nodiscard]] EventId reduced() const { return reduced_; }  ///< Of the last reduction; -1 before any.
  [[nodiscard]] EventId on_host() const { return on_host_; }
  /// The embedding that this stage and another hold, each its own copy of; null where there is none.
  [[nodiscard]] const ParamRef* tied_parameter() const;

  [[nodiscard]] static int base_of(const std::vector<ParamRef>& params);

 private:
  /// Gradients that are reduced in one call, and the block position whose backward completes them.
  struct Bucket {
    std::vector<ParamRef> params;
    int closes_at = 0;
  };
  void list_parameters();
  void find_last_passes(const std::vector<Slot>& slots);
  void make_buckets();
  void make_unit_buckets();
  void find_final_positions();
  [[nodiscard]] int chunk_at(int position) const;
  [[nodiscard]] bool reduces_on_the_way() const;
  [[nodiscard]] bool early_to_host();
  void copy_to_host(const std::vector<ParamRef>& params, EventId after);
  void send_to_host(int position, EventId done);
  void reduce(const Bucket& bucket, EventId after, bool last);
  [[nodiscard]] int first_rank() const;
  [[nodiscard]] bool shared_name(const ParamRef& p) const;

  ProgramFrame& frame_;
  StepBodies& step_;
  const RolePlan& plan_;
  int stage_;
  RoleEntries& entries_;
  const UnitPlan& units_;
  bool every_;  ///< Gradients are reduced after every microbatch.
  std::vector<ParamRef> params_;
  std::vector<std::pair<int, int>> scales_;
  std::vector<ChunkPlacement> chunks_;  ///< Of this stage, in the order in which their gradients become final.
  std::map<int, int> last_pass_;        ///< Microbatch by chunk.
  std::vector<int> final_;              ///< By parameter: the position whose pass makes its gradient final ...
  std::map<int, std::vector<ParamRef>> final_at_;  ///< ... and the other way round, from the back.
  std::vector<Bucket> buckets_;
  std::map<int, std::vector<std::size_t>> closing_;
  std::set<int> gradients_;             ///< Gradient tensors.
  std::set<std::pair<int, int>> live_;  ///< Whole ones with storage, by tensor and position.
  std::map<std::string, int> allocating_;
  std::set<ParamRef> sent_to_host_;
  std::set<ParamRef> reduced_before_;  ///< First parameters of buckets reduced in this step.
  EventId reduced_ = -1, on_host_ = -1;
  /// Parameters to be updated once an event has passed; -1: at once.
  std::vector<std::pair<std::vector<ParamRef>, EventId>> early_;
  EventId updated_ = -1;
  std::optional<bool> early_to_host_;
};

}  // namespace rehearse
