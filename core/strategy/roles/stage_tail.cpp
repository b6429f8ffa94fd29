#include "core/strategy/roles/stage_tail.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"

namespace rehearse {

namespace {

class StageTail {
 public:
  StageTail(ProgramFrame& frame, StepBodies& step, const RolePlan& plan, StageGradients& gradients,
            RoleEntries& entries)
      : frame_(frame),
        step_(step),
        plan_(plan),
        gradients_(gradients),
        entries_(entries),
        params_(gradients.params()) {}

  void add(EventId last_pass, int first_gather) {
    gradients_.reduce_rest(last_pass);
    std::vector<Wait> ready{{last_pass}};
    if (gradients_.reduced() >= 0) ready.push_back({gradients_.reduced()});
    sum_over_stages(ready);
    if (step_.updates_on_host()) {
      gradients_.send_rest_to_host(ready);
      ready.push_back({gradients_.on_host()});
    }
    if (step_.updates_in_backward()) {
      const EventId updated = gradients_.update_early();
      scale_updates(last_pass);
      if (first_gather >= 0) entries_.wait_next_step(nth(entries_.role().step, first_gather), updated);
      return;
    }
    RoleCall norm{step_.gradient_norm(params_, base()), frame_.compute, base()};
    norm.waits = ready;
    for (const Wait& w : entries_.take_held_back()) norm.waits.push_back(w);
    norm.record = true;
    const EventId norm_done = entries_.add(norm);
    scale_updates(last_pass);
    const EventId updated = update(norm_done);
    if (first_gather >= 0) entries_.wait_next_step(nth(entries_.role().step, first_gather), updated);
    if (std::any_of(params_.begin(), params_.end(), [this](const ParamRef& p) { return step_.sharded_optimizer(p); }))
      gather_parameters(updated);
    if (step_.updates_on_host()) wait_for_parameters(updated);
  }

 private:
  [[nodiscard]] int base() const { return StageGradients::base_of(params_); }

  void scale_updates(EventId last_pass) {
    if (const auto& scales = gradients_.scales(); !scales.empty())
      entries_.add({step_.update_scales(scales), frame_.compute, scales.front().first, 0, 0, 0, {{last_pass}}});
  }

  /// Sums of which other ranks hold terms, each after the one before.
  void sum_over_stages(std::vector<Wait>& ready) {
    const auto sum = [&](StepBodies::Made made, StreamId stream, int layer) {
      if (made.body < 0) return;
      RoleCall call{made, stream, layer};
      call.waits = ready;
      call.record = true;
      ready.push_back({entries_.add(call)});
    };
    sum(step_.reduce_tp(params_, base()), frame_.tp, base());
    if (frame_.chunk_copies > 1) sum(step_.reduce_copies(params_, base()), frame_.dp, base());
    if (const ParamRef* tied = gradients_.tied_parameter())
      sum(step_.reduce_tied(*tied, plan_.shape.stages), frame_.dp, tied->position);
  }

  /// Returns the event of the last update.
  EventId update(EventId norm_done) {
    std::vector<Wait> waits{{norm_done}};
    if (gradients_.on_host() >= 0) waits.push_back({gradients_.on_host()});
    std::map<int, std::vector<ParamRef>> by_position;
    for (const ParamRef& p : params_) by_position[p.position].push_back(p);
    if (const StepBodies::Made copies = step_.update_copies(params_); copies.body >= 0) {
      RoleCall call{copies, frame_.compute, base()};
      call.waits = waits;
      entries_.add(call);
    }
    EventId updated = -1;
    for (const auto& [position, params] : by_position) {
      RoleCall call{step_.parameter_update(params, position), frame_.compute, position};
      call.waits = waits;
      waits.clear();
      call.record = true;
      updated = entries_.add(call);
      updated_[position] = updated;
    }
    return updated;
  }

  /// All-gathers in forward order, so that the next step's first layers have theirs first.
  void gather_parameters(EventId all_updated) {
    std::map<std::pair<int, AxisSet>, std::vector<ParamRef>> by_position;
    for (const ParamRef& p : params_)
      if (step_.sharded_optimizer(p) && !step_.state(p).sharded)
        by_position[{p.position, step_.data_axes(p)}].push_back(p);
    if (by_position.empty()) return;
    std::map<int, EventId> gathered;
    for (const auto& [at, params] : by_position) {
      const int position = at.first;
      RoleCall call{step_.gather(params, position), frame_.dp, position};
      call.waits.push_back({plan_.settings.overlap.param_gather ? updated_.at(position) : all_updated});
      call.record = true;
      gathered[position] = entries_.add(call);
    }
    entries_.hold_back(gathered.rbegin()->second);  // Passes that follow in this step read all of them.
    // The next step reads gathered parameters: layer by layer as they arrive, or all before its first pass.
    std::map<int, bool> seen;
    for (Entry& e : entries_.role().step) {
      if (e.stream != frame_.compute) continue;
      if (!plan_.settings.overlap.param_gather) return entries_.wait_next_step(e, gathered.rbegin()->second);
      const auto at = gathered.find(e.layer);
      if (at != gathered.end() && seen.insert({e.layer, true}).second) entries_.wait_next_step(e, at->second);
    }
  }

  void wait_for_parameters(EventId updated) {
    for (Entry& e : entries_.role().step)
      if (e.stream == frame_.compute) return entries_.wait_next_step(e, updated);
  }

  ProgramFrame& frame_;
  StepBodies& step_;
  const RolePlan& plan_;
  StageGradients& gradients_;
  RoleEntries& entries_;
  const std::vector<ParamRef>& params_;
  std::map<int, EventId> updated_;  ///< By position.
};

}  // namespace

void add_tail(ProgramFrame& frame, StepBodies& step, const RolePlan& plan, StageGradients& gradients,
              RoleEntries& entries, EventId last_pass, int first_gather) {
  if (!gradients.params().empty()) StageTail(frame, step, plan, gradients, entries).add(last_pass, first_gather);
}

}  // namespace rehearse
