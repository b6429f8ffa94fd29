#include "core/strategy/roles/roles.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/program/body.hpp"
#include "core/strategy/bodies/activation_offload.hpp"
#include "core/strategy/roles/stage_tail.hpp"

namespace rehearse {

namespace {

/// One slot on its way through the chunk's blocks.
struct Walk {
  Slot slot;
  ChunkPlacement chunk;
  std::vector<int> positions;  ///< In the order of the pass.
  std::vector<Wait> waits;     ///< Of the next call.
  EventId last = -1;           ///< Of the last call that records one.
  [[nodiscard]] bool forward() const { return slot.pass == Pass::forward; }
};

class StageRole {
 public:
  StageRole(ProgramFrame& frame, StepBodies& step, const RolePlan& plan, int stage)
      : frame_(frame),
        step_(step),
        plan_(plan),
        stage_(stage),
        blocking_(!plan.settings.overlap.pp),
        units_(step, plan, stage),
        entries_(frame, fmt::format("stage {}", stage)),
        gradients_(frame, step, plan, stage, entries_, units_),
        offload_(frame, plan) {
    // Only a message that every tensor-parallel rank holds whole can be split; under sequence parallelism it is split
    // already.
    scatters_ =
        plan.settings.scatter_gather && plan.settings.tp > 1 &&
        std::all_of(frame.edges.begin(), frame.edges.end(), [&](const ProgramFrame::Edge& e) {
          return std::holds_alternative<Replicate>(layout_on(nth(frame.program.tensors, e.value).layout, Axis::tp));
        });
    for (const ChunkPlacement& c : plan.chunks)
      if (c.stage == stage) offload_.add(c);
  }

  Role build() {
    const std::vector<Slot> slots = plan_.schedule.order(stage_, plan_.shape);
    gradients_.plan(slots);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (i + 1 < slots.size() && slots[i + 1].paired) {
        run_pair(slots[i], slots[i + 1]);
        ++i;
      } else {
        run(slots[i]);
      }
    }
    run_deferred();
    add_tail(frame_, step_, plan_, gradients_, entries_, last_compute_, first_gather_);
    return entries_.take();
  }

 private:
  // ---- messages

  /// Position in the pp group of the stage of chunk `c`, as seen from this stage: an expression where it is a
  /// neighbour, so that stages share bodies.
  ExprId peer(int c, int copy) {
    ExprPool& e = frame_.program.exprs;
    const int p = plan_.shape.stages, other = plan_.chunk(c, copy).stage;
    const ExprId me = e.coord(Axis::pp), n = e.constant(p);
    if (other == (stage_ + 1) % p) return e.apply(ExprOp::mod, e.apply(ExprOp::add, me, ExprPool::kOne), n);
    if (other == (stage_ + p - 1) % p) return e.apply(ExprOp::mod, e.apply(ExprOp::add, me, e.constant(p - 1)), n);
    return e.constant(other);
  }

  /// A message between this stage's chunk and chunk `other`; none when both are here.
  [[nodiscard]] bool remote(int other, int copy) const {
    return other >= 0 && other < plan_.chunk_count() && plan_.chunk(other, copy).stage != stage_;
  }

  /// Where chunks run back along the stages, messages have streams of their own: they wait for no others.
  [[nodiscard]] StreamId stream(bool forward, bool sends, const Slot& slot, int other) const {
    const bool back = plan_.chunk(std::min(slot.chunk, other), slot.copy).stage >
                          plan_.chunk(std::max(slot.chunk, other), slot.copy).stage &&
                      frame_.back.used;
    if (forward && sends) return back ? frame_.back.send_prev : frame_.send_next;
    if (forward) return back ? frame_.back.receive_next : frame_.receive_prev;
    if (sends) return back ? frame_.back.send_next : frame_.send_prev;
    return back ? frame_.back.receive_prev : frame_.receive_next;
  }

  EventId receive(bool forward, const Slot& slot, int other, int position) {
    const StreamId on = stream(forward, false, slot, other);
    RoleCall call{
        step_.receive(forward, plan_.passing.at(position)[forward ? 0 : 1], peer(other, slot.copy), scatters_, on),
        on,
        position,
        slot.chunk,
        slot.microbatch,
        slot.copy};
    call.record = true;
    return entries_.add(call);
  }

  void send(bool forward, const Slot& slot, int other, int position, EventId after) {
    const StreamId on = stream(forward, true, slot, other);
    RoleCall call{
        step_.send(forward, plan_.passing.at(position)[forward ? 0 : 1], peer(other, slot.copy), scatters_, on),
        on,
        position,
        slot.chunk,
        slot.microbatch,
        slot.copy};
    call.waits.push_back({after});
    call.record = blocking_;
    const EventId done = entries_.add(call);
    if (blocking_) entries_.hold_back(done);
  }

  // ---- units: parameters whole around their use

  void begin_units(const Walk& walk) {
    if (!units_.any()) return;
    UnitPass pass{walk.forward(), !walk.forward() && gradients_.is_last(walk.slot), walk.slot.chunk, walk.positions};
    // A forward begins gathering once the pass before is over, a backward as soon as there is room.
    pass_start_ = pass.forward ? last_compute_ : last_drop_;
    pass_ends_.clear();
    units_.begin(std::move(pass));
  }

  /// Gathers due before the k-th position of the pass; what the position itself must wait for is added to the walk's
  /// waits.
  void gather_units(Walk& walk, int k) {
    for (const UnitPlan::Gather& g : units_.before(k)) {
      const int base = StageGradients::base_of(g.params);
      RoleCall call{step_.gather_unit(g.params, base), frame_.dp, base, walk.slot.chunk, walk.slot.microbatch};
      const EventId after = g.after >= 0 ? nth(pass_ends_, g.after) : pass_start_;
      if (after >= 0) call.waits.push_back({after});
      call.record = true;
      if (first_gather_ < 0) first_gather_ = static_cast<int>(entries_.role().step.size());
      EventId whole = entries_.add(call);
      if (!g.again.empty()) {
        RoleCall drop{step_.drop_unit(g.again, base),
                      frame_.compute,
                      base,
                      walk.slot.chunk,
                      walk.slot.microbatch,
                      0,
                      {{whole}},
                      true};
        RoleCall again{step_.gather_unit(g.again, base), frame_.dp, base, walk.slot.chunk, walk.slot.microbatch, 0,
                       {{entries_.add(drop)}},           true};
        whole = entries_.add(again);
      }
      whole_[g.unit] = whole;
    }
    if (const auto at = whole_.find(units_.unit_at(nth(walk.positions, k))); at != whole_.end()) {
      walk.waits.push_back({at->second});
      whole_.erase(at);
    }
  }

  void drop_units(const Walk& walk, int k, EventId done) {
    pass_ends_.push_back(done);
    const std::vector<ParamRef> params = units_.dropped_after(k);
    if (params.empty()) return;
    const int base = StageGradients::base_of(params);
    entries_.add({step_.drop_unit(params, base), frame_.compute, base, walk.slot.chunk, walk.slot.microbatch});
    last_drop_ = done;
  }

  // ---- passes

  Walk start(const Slot& slot) {
    Walk walk{slot, plan_.chunk(slot.chunk, slot.copy), {}, {}, last_compute_};
    for (int position = walk.chunk.first_layer; position < walk.chunk.last_layer; ++position)
      walk.positions.push_back(position);
    if (!walk.forward()) std::reverse(walk.positions.begin(), walk.positions.end());
    begin_units(walk);
    if (walk.forward() && remote(slot.chunk - 1, slot.copy))
      walk.waits.push_back({receive(true, slot, slot.chunk - 1, walk.chunk.first_layer)});
    if ((slot.pass == Pass::backward || slot.pass == Pass::backward_input) && remote(slot.chunk + 1, slot.copy))
      walk.waits.push_back({receive(false, slot, slot.chunk + 1, walk.chunk.last_layer)});
    return walk;
  }

  /// The call of the k-th position, or of its weight half; none where that has nothing to do.
  std::optional<RoleCall> call(Walk& walk, int k, bool weight) {
    const int position = nth(walk.positions, k);
    const BlockBodies& b = plan_.bodies_at(position);
    const Slot& slot = walk.slot;
    if (walk.forward() && b.input.body >= 0) {
      RoleCall input{b.input, frame_.io, position, slot.chunk, slot.microbatch, slot.copy};
      input.record = true;
      walk.waits.push_back({entries_.add(input)});
    }
    if (!weight) gather_units(walk, k);
    if (walk.forward() && b.weights.body >= 0 && cast_.insert(position).second)
      entries_.add_pass(
          {b.weights, frame_.compute, position, slot.chunk, slot.microbatch, slot.copy, std::exchange(walk.waits, {})});
    if (!walk.forward() && !weight) {
      bring_back(walk, position);
      run_group_again(walk, position);
    }
    StepBodies::Made made = walk.forward() ? b.forward : weight ? b.weight : b.backward;
    if (made.body < 0) return std::nullopt;
    if (!walk.forward()) made.bindings = gradients_.with_storage(made.bindings, position);
    RoleCall out{made, frame_.compute, position, slot.chunk, slot.microbatch, slot.copy, std::exchange(walk.waits, {})};
    const bool last = k + 1 == static_cast<int>(walk.positions.size());
    out.record = last || units_.any() || offload_.any() ||
                 (!walk.forward() &&
                  (plan_.schedule.splits_backward() || gradients_.closes(slot, position) || step_.updates_on_host()));
    return out;
  }

  void called(Walk& walk, EventId done) {
    if (done >= 0) walk.last = last_compute_ = done;
  }

  /// After the k-th position's last call.
  void finished(Walk& walk, int k, bool weight) {
    drop_units(walk, k, walk.last);
    if (walk.forward()) move_out(walk, nth(walk.positions, k));
    if (walk.forward() || !weight) return;
    const int position = nth(walk.positions, k);
    if (position == plan_.deferred_position()) return;  // After the last backward.
    gradients_.finished(walk.slot, position, walk.last);
    if (gradients_.closes(walk.slot, position) && !plan_.settings.overlap.grad_reduce)
      walk.waits.push_back({gradients_.reduced()});
  }

  void end(Walk& walk) {
    const Slot& slot = walk.slot;
    // The next microbatch adds to gradients that are still being reduced.
    const bool final = slot.pass == Pass::backward || slot.pass == Pass::backward_weight;
    if (final && gradients_.every_microbatch() && !step_.shards_gradients() && gradients_.reduced() >= 0)
      entries_.hold_back(gradients_.reduced());
    if (walk.forward()) move_out(walk, -1);
    entries_.hold_back(walk.waits);
    if (walk.forward() && remote(slot.chunk + 1, slot.copy))
      send(true, slot, slot.chunk + 1, walk.chunk.last_layer, walk.last);
    if (!walk.forward() && slot.pass != Pass::backward_weight && remote(slot.chunk - 1, slot.copy))
      send(false, slot, slot.chunk - 1, walk.chunk.first_layer, walk.last);
  }

  /// What the layer before keeps leaves beside this one's forward; the next forward waits for the storage.
  void move_out(Walk& walk, int position) {
    if (const auto [before, done] = leaving_; before >= 0) {
      const RoleCall call{offload_.out(before), frame_.copies_out, before,   walk.slot.chunk,
                          walk.slot.microbatch, walk.slot.copy,    {{done}}, true};
      walk.waits.push_back({out_[{before, walk.slot.microbatch}] = entries_.add(call)});
    }
    leaving_ = {position >= 0 && offload_.moves(position) ? position : -1, walk.last};
  }

  /// Copies back what the backward of `position` reads, and what the next one will, under it.
  void bring_back(Walk& walk, int position) {
    if (!offload_.any()) return;
    const Slot& slot = walk.slot;
    for (const int above : {position + 1, position}) {
      const int p = offload_.next_needed(above, walk.chunk.first_layer);
      const auto left = out_.find({p, slot.microbatch});
      if (p < 0 || left == out_.end()) continue;
      RoleCall call{offload_.in(p), frame_.copies, p, slot.chunk, slot.microbatch, slot.copy, {{left->second}}, true};
      if (last_compute_ >= 0) call.waits.push_back({last_compute_});
      arriving_[p] = entries_.add(call);
      out_.erase(left);
    }
    for (auto a = arriving_.lower_bound(walk.chunk.first_layer); a != arriving_.end();) {
      if (offload_.needed_by(a->first) != position) {
        ++a;
        continue;
      }
      walk.waits.push_back({a->second});
      a = arriving_.erase(a);
    }
  }

  /// Where a group of layers ends that keeps its first input only, all of it runs again before its backwards.
  void run_group_again(Walk& walk, int position) {
    const auto group = plan_.groups.find(position);
    if (group == plan_.groups.end()) return;
    for (int p = group->second; p <= position; ++p)
      entries_.add_pass({p == position ? plan_.bodies_at(p).again_last : plan_.bodies_at(p).again, frame_.compute, p,
                         walk.slot.chunk, walk.slot.microbatch, walk.slot.copy, std::exchange(walk.waits, {})});
  }

  void add(Walk& walk, int k, bool weight) {
    if (const auto made = call(walk, k, weight)) called(walk, entries_.add_pass(*made));
  }

  /// Both halves of a whole backward that is split, position by position.
  void add_whole(Walk& walk, int k) {
    const int position = nth(walk.positions, k);
    const bool deferrable = position == plan_.deferred_position() && walk.slot.pass == Pass::backward;
    const bool split = plan_.schedule.splits_backward() || deferrable;
    add(walk, k, walk.slot.pass == Pass::backward_weight);
    if (deferrable && walk.slot.microbatch < plan_.settings.deferred_head_gradients)
      deferred_.push_back(walk.slot);
    else if (split && walk.slot.pass == Pass::backward)
      add(walk, k, true);
    finished(walk, k, walk.slot.pass == Pass::backward || walk.slot.pass == Pass::backward_weight);
  }

  void run(const Slot& slot) {
    Walk walk = start(slot);
    for (const Wait& w : entries_.take_held_back()) walk.waits.push_back(w);
    for (int k = 0; k < static_cast<int>(walk.positions.size()); ++k) add_whole(walk, k);
    end(walk);
  }

  /// Weight gradients that waited for the last backward, and their reduction.
  void run_deferred() {
    const int position = plan_.deferred_position();
    for (const Slot& slot : deferred_) {
      RoleCall call{plan_.bodies_at(position).weight, frame_.compute, position, slot.chunk, slot.microbatch, slot.copy,
                    entries_.take_held_back()};
      call.record = slot.microbatch == deferred_.back().microbatch;
      if (const EventId done = entries_.add_pass(call); done >= 0) last_compute_ = done;
    }
    if (!deferred_.empty()) gradients_.finished_late(position, last_compute_);
  }

  /// A forward and a backward, block by block at once.
  void run_pair(const Slot& ahead, const Slot& back) {
    Walk f = start(ahead), b = start(back);
    const std::vector<Wait> held = entries_.take_held_back();
    for (Walk* walk : {&f, &b}) walk->waits.insert(walk->waits.end(), held.begin(), held.end());
    const std::size_t both = std::min(f.positions.size(), b.positions.size());
    for (std::size_t i = 0; i < std::max(f.positions.size(), b.positions.size()); ++i) {
      const int k = static_cast<int>(i);
      if (i >= both) {
        add_whole(i < f.positions.size() ? f : b, k);
        continue;
      }
      const auto one = call(f, k, false), other = call(b, k, false);
      if (one && other) {
        const auto [first, second] = entries_.add_pair(*one, *other);
        called(f, first);
        called(b, second);
      } else {
        if (one) called(f, entries_.add_pass(*one));
        if (other) called(b, entries_.add_pass(*other));
      }
      finished(f, k, false);
      add(b, k, true);
      finished(b, k, true);
    }
    f.last = b.last = last_compute_;  // What the two give leaves when both are done.
    end(f);
    end(b);
  }

  ProgramFrame& frame_;
  StepBodies& step_;
  const RolePlan& plan_;
  int stage_;
  bool blocking_;
  bool scatters_ = false;
  UnitPlan units_;
  RoleEntries entries_;
  StageGradients gradients_;
  EventId last_compute_ = -1;
  EventId pass_start_ = -1, last_drop_ = -1;
  std::vector<EventId> pass_ends_;  ///< Of the positions of the pass in hand.
  std::map<int, EventId> whole_;    ///< Units gathered and not used yet.
  int first_gather_ = -1;
  ActivationOffload offload_;
  /// Position whose activations go out next, and the end of its forward.
  std::pair<int, EventId> leaving_{-1, -1};
  std::map<std::pair<int, int>, EventId> out_;  ///< In host memory since, by position and microbatch.
  std::map<int, EventId> arriving_;             ///< On their way back, by position.
  std::vector<Slot> deferred_;                  ///< Backwards of the deferred position whose weight half has not run.
  std::set<int> cast_;                          ///< Positions whose weights have been cast to fp8.
};

}  // namespace

bool syncs_every_microbatch(const StrategySettings& settings, bool shards_gradients) {
  if (settings.grad_sync != GradientSync::automatic) return settings.grad_sync == GradientSync::every;
  return shards_gradients && (!settings.fsdp.enabled || settings.pp == 1);
}

Role make_role(ProgramFrame& frame, StepBodies& step, const RolePlan& plan, int stage) {
  return StageRole(frame, step, plan, stage).build();
}

}  // namespace rehearse
