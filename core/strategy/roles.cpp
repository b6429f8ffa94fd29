#include "core/strategy/roles.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "core/strategy/activation_offload.hpp"
#include "core/strategy/body_ends.hpp"
#include "core/strategy/fp8.hpp"
#include "core/strategy/unit_plan.hpp"

namespace rehearse {

namespace {

/// Gradients that are reduced in one call, and the block position whose backward completes them.
struct Bucket {
  std::vector<ParamRef> params;
  int closes_at = 0;
};

class RoleBuilder {
 public:
  RoleBuilder(ProgramFrame& frame, StepBodies& step, const RolePlan& plan, int stage)
      : frame_(frame), step_(step), plan_(plan), stage_(stage), blocking_(!plan.settings.overlap.pp), offload_(frame, plan), units_(step, plan, stage),
        every_((frame.program.microbatches > 1 || step.shards_gradients()) && syncs_every_microbatch(plan.settings, step.shards_gradients())) {
    // Only a message that every tensor-parallel rank holds whole can be split; under sequence parallelism it is split already.
    scatters_ = plan.settings.scatter_gather && plan.settings.tp > 1 && std::all_of(frame.edges.begin(), frame.edges.end(), [&](const ProgramFrame::Edge& e) {
      return std::holds_alternative<Replicate>(layout_on(frame.program.tensors[static_cast<std::size_t>(e.value)].layout, Axis::tp));
    });
    role_.name = fmt::format("stage {}", stage);
    for (const ChunkPlacement& c : plan.chunks)
      if (c.stage == stage) offload_.add(c);
  }

  Role build() {
    list_parameters();
    const std::vector<Slot> slots = plan_.schedule.order(stage_, plan_.shape);
    find_last_backwards(slots);
    if (plan_.settings.fsdp.enabled && units_.any()) make_unit_buckets();
    else make_buckets();
    for (const Slot& slot : slots) {
      if (slot.pass == Pass::forward) forward(slot);
      else if (slot.pass == Pass::backward) backward(slot);
      else throw std::logic_error("schedules with split backward need split bodies");
    }
    tail();
    role_.events = next_event_;
    return std::move(role_);
  }

 private:
  // ---- entries

  struct Call {
    StepBodies::Made made;
    StreamId stream;
    int layer = 0, chunk = 0, microbatch = 0;
    std::vector<Wait> waits{};
    bool record = false;
  };

  EventId add(const Call& call) {
    Entry e;
    e.body = call.made.body;
    e.bindings = call.made.bindings;
    e.stream = call.stream;
    e.layer = call.layer;
    e.chunk = call.chunk;
    e.microbatch = call.microbatch;
    e.first_wait = static_cast<std::int32_t>(role_.waits.size());
    e.wait_count = static_cast<std::int32_t>(call.waits.size());
    role_.waits.insert(role_.waits.end(), call.waits.begin(), call.waits.end());
    if (call.record) e.record = next_event_++;
    role_.step.push_back(e);
    return e.record;
  }

  /// Adds a block's pass. Where the compute stream alone does not order it after the pass before, it waits for that one's end.
  EventId add_pass(Call call) {
    if (last_pass_ >= 0) {
      Entry& before = role_.step[static_cast<std::size_t>(last_pass_)];
      if (ends(call.made.body).opens_elsewhere || ends(before.body).closes_elsewhere) {
        if (before.record < 0) before.record = next_event_++;
        call.waits.push_back({before.record});
      }
    }
    last_pass_ = static_cast<int>(role_.step.size());
    return add(call);
  }

  const BodyEnds& ends(int body) {
    const auto [at, fresh] = ends_.try_emplace(body);
    if (fresh) at->second = ends_of(frame_.program.bodies[static_cast<std::size_t>(body)], frame_.compute);
    return at->second;
  }

  std::vector<Wait> take_pending() {
    std::vector<Wait> out;
    std::swap(out, pending_);
    return out;
  }

  [[nodiscard]] const ChunkPlacement& chunk(int c) const { return plan_.chunks[static_cast<std::size_t>(c)]; }
  [[nodiscard]] int block_at(int position) const { return plan_.block_at[static_cast<std::size_t>(position)]; }
  [[nodiscard]] const BlockBodies& bodies_at(int position) const { return plan_.bodies[static_cast<std::size_t>(plan_.body_at[static_cast<std::size_t>(position)])]; }
  [[nodiscard]] int last_chunk() const { return static_cast<int>(plan_.chunks.size()) - 1; }

  /// Position of chunk `c`'s stage in the pp group, as seen from this stage: an expression where it is a neighbour, so that stages
  /// share bodies.
  ExprId peer(int c) {
    ExprPool& e = frame_.program.exprs;
    const int p = plan_.shape.stages, other = chunk(c).stage;
    const ExprId me = e.coord(Axis::pp), n = e.constant(p);
    if (other == (stage_ + 1) % p) return e.apply(ExprOp::mod, e.apply(ExprOp::add, me, ExprPool::kOne), n);
    if (other == (stage_ + p - 1) % p) return e.apply(ExprOp::mod, e.apply(ExprOp::add, me, e.constant(p - 1)), n);
    return e.constant(other);
  }

  /// A message between this stage's chunk `c` and chunk `other`; none when both are here.
  [[nodiscard]] bool remote(int other) const { return other >= 0 && other <= last_chunk() && chunk(other).stage != stage_; }

  [[nodiscard]] const StepBodies::Passing& passing(bool forward, int position) const { return plan_.passing.at(position)[forward ? 0 : 1]; }

  EventId receive(bool forward, int c, int other, int position, int microbatch) {
    Call call{step_.receive(forward, passing(forward, position), peer(other), scatters_), forward ? frame_.receive_prev : frame_.receive_next, position, c, microbatch};
    call.record = true;
    return add(call);
  }

  void send(bool forward, int c, int other, int position, int microbatch) {
    Call call{step_.send(forward, passing(forward, position), peer(other), scatters_), forward ? frame_.send_next : frame_.send_prev, position, c, microbatch};
    call.waits.push_back({last_compute_});
    call.record = blocking_;
    const EventId done = add(call);
    if (blocking_) pending_.push_back({done});
  }

  // ---- units: parameters whole around their use

  void begin_units(const Slot& slot, const ChunkPlacement& c) {
    if (!units_.any()) return;
    UnitPass pass{slot.pass == Pass::forward, false, slot.chunk, {}};
    pass.last = !pass.forward && slot.microbatch == last_backward_.at(slot.chunk);
    for (int position = c.first_layer; position < c.last_layer; ++position) pass.positions.push_back(position);
    if (!pass.forward) std::reverse(pass.positions.begin(), pass.positions.end());
    // A forward begins gathering once the pass before is over, a backward as soon as there is room.
    pass_start_ = pass.forward ? last_compute_ : last_drop_;
    pass_ends_.clear();
    units_.begin(std::move(pass));
  }

  /// Gathers due before the k-th position of the pass; what the position itself must wait for is added to `waits`.
  void gather_units(const Slot& slot, int k, int position, std::vector<Wait>& waits) {
    for (const UnitPlan::Gather& g : units_.before(k)) {
      const int base = base_of(g.params);
      Call call{step_.gather_unit(g.params, base), frame_.dp, base, slot.chunk, slot.microbatch};
      const EventId after = g.after >= 0 ? pass_ends_[static_cast<std::size_t>(g.after)] : pass_start_;
      if (after >= 0) call.waits.push_back({after});
      call.record = true;
      if (first_gather_ < 0) first_gather_ = static_cast<int>(role_.step.size());
      whole_[g.unit] = add(call);
    }
    if (const auto at = whole_.find(units_.unit_at(position)); at != whole_.end()) {
      waits.push_back({at->second});
      whole_.erase(at);
    }
  }

  void drop_units(const Slot& slot, int k, EventId done) {
    pass_ends_.push_back(done);
    const std::vector<ParamRef> params = units_.dropped_after(k);
    if (params.empty()) return;
    const int base = base_of(params);
    add({step_.drop_unit(params, base), frame_.compute, base, slot.chunk, slot.microbatch});
    last_drop_ = done;
  }

  /// The backward's bindings, with storage for the gradients that have none.
  int with_gradients(int bindings, int position) {
    if (!step_.shards_gradients()) return bindings;
    BindingSet set = frame_.program.binding_sets[static_cast<std::size_t>(bindings)];
    std::string key = std::to_string(bindings);
    for (Binding& b : set) {
      const Tensor& t = frame_.program.tensors[static_cast<std::size_t>(b.tensor)];
      if (gradients_.count(b.tensor) == 0 || t.lifetime != Lifetime::step) continue;
      b.allocate = live_gradients_.insert({b.tensor, position + b.instance.layer_delta}).second;
      key += b.allocate ? '+' : ' ';
    }
    const auto [at, fresh] = allocating_.try_emplace(key, static_cast<int>(frame_.program.binding_sets.size()));
    if (fresh) frame_.program.binding_sets.push_back(std::move(set));
    return at->second;
  }

  // ---- passes

  void forward(const Slot& slot) {
    const ChunkPlacement& c = chunk(slot.chunk);
    begin_units(slot, c);
    std::vector<Wait> waits;
    if (remote(slot.chunk - 1)) waits.push_back({receive(true, slot.chunk, slot.chunk - 1, c.first_layer, slot.microbatch)});
    for (const Wait& w : take_pending()) waits.push_back(w);
    for (int position = c.first_layer; position < c.last_layer; ++position) {
      const BlockBodies& b = bodies_at(position);
      if (b.input.body >= 0) {
        Call input{b.input, frame_.io, position, slot.chunk, slot.microbatch};
        input.record = true;
        waits.push_back({add(input)});
      }
      const int k = position - c.first_layer;
      gather_units(slot, k, position, waits);
      if (b.weights.body >= 0 && cast_.insert(position).second) {
        add_pass({b.weights, frame_.compute, position, slot.chunk, slot.microbatch, std::move(waits)});
        waits.clear();
      }
      Call call{b.forward, frame_.compute, position, slot.chunk, slot.microbatch, std::move(waits)};
      waits.clear();
      call.record = position + 1 == c.last_layer || units_.any() || offload_.any();
      const EventId done = add_pass(call);
      if (call.record) last_compute_ = done;
      drop_units(slot, k, done);
      move_out(slot, position, done, waits);
    }
    if (leaving_.first >= 0) move_out(slot, -1, -1, pending_);
    if (remote(slot.chunk + 1)) send(true, slot.chunk, slot.chunk + 1, c.last_layer, slot.microbatch);
  }

  void backward(const Slot& slot) {
    const ChunkPlacement& c = chunk(slot.chunk);
    const bool reduces = every_ || slot.microbatch == last_backward_.at(slot.chunk);
    begin_units(slot, c);
    std::vector<Wait> waits;
    if (remote(slot.chunk + 1)) waits.push_back({receive(false, slot.chunk, slot.chunk + 1, c.last_layer, slot.microbatch)});
    for (const Wait& w : take_pending()) waits.push_back(w);
    for (int position = c.last_layer; position-- > c.first_layer;) {
      const int k = c.last_layer - 1 - position;
      gather_units(slot, k, position, waits);
      bring_back(slot, c, position, waits);
      run_group_again(slot, position, waits);
      const bool closes = reduces && reduces_on_the_way() && closing_.count(position) != 0;
      StepBodies::Made made = bodies_at(position).backward;
      made.bindings = with_gradients(made.bindings, position);
      Call call{made, frame_.compute, position, slot.chunk, slot.microbatch, std::move(waits)};
      waits.clear();
      call.record = closes || position == c.first_layer || units_.any() || offload_.any() || step_.updates_on_host();
      const EventId done = add_pass(call);
      if (call.record) last_compute_ = done;
      drop_units(slot, k, done);
      if (closes)
        for (const std::size_t i : closing_.at(position)) reduce(buckets_[i], done, slot.microbatch == last_backward_.at(slot.chunk));
      if (slot.microbatch == last_backward_.at(slot.chunk)) send_to_host(position, done);
      if (closes && !plan_.settings.overlap.grad_reduce) waits.push_back({reduced_});
    }
    // The next microbatch adds to gradients that are still being reduced.
    if (every_ && !step_.shards_gradients() && reduced_ >= 0) pending_.push_back({reduced_});
    for (const Wait& w : waits) pending_.push_back(w);
    if (remote(slot.chunk - 1)) send(false, slot.chunk, slot.chunk - 1, c.first_layer, slot.microbatch);
  }

  /// What the layer before keeps leaves beside this one's forward; the next forward waits for the storage.
  void move_out(const Slot& slot, int position, EventId done, std::vector<Wait>& next) {
    if (const auto [before, finished] = leaving_; before >= 0) {
      Call call{offload_.out(before), frame_.copies_out, before, slot.chunk, slot.microbatch, {{finished}}, true};
      next.push_back({out_[{before, slot.microbatch}] = add(call)});
    }
    leaving_ = {position >= 0 && offload_.moves(position) ? position : -1, done};
  }

  /// Copies back what the backward of `position` reads, and what the next one will, under it.
  void bring_back(const Slot& slot, const ChunkPlacement& c, int position, std::vector<Wait>& waits) {
    if (!offload_.any()) return;
    for (const int above : {position + 1, position}) {
      const int p = offload_.next_needed(above, c.first_layer);
      const auto left = out_.find({p, slot.microbatch});
      if (p < 0 || left == out_.end()) continue;
      Call call{offload_.in(p), frame_.copies, p, slot.chunk, slot.microbatch, {{left->second}}, true};
      if (last_compute_ >= 0) call.waits.push_back({last_compute_});
      arriving_[p] = add(call);
      out_.erase(left);
    }
    const auto [first, last] = std::pair{arriving_.lower_bound(c.first_layer), arriving_.end()};
    for (auto a = first; a != last;) {
      if (offload_.needed_by(a->first) != position) { ++a; continue; }
      waits.push_back({a->second});
      a = arriving_.erase(a);
    }
  }

  /// Where a group of layers ends that keeps its first input only, all of it runs again before its backwards.
  void run_group_again(const Slot& slot, int position, std::vector<Wait>& waits) {
    const auto group = plan_.groups.find(position);
    if (group == plan_.groups.end()) return;
    for (int p = group->second; p <= position; ++p) {
      add_pass({p == position ? bodies_at(p).again_last : bodies_at(p).again, frame_.compute, p, slot.chunk, slot.microbatch, std::move(waits)});
      waits.clear();
    }
  }

  // ---- gradients and update

  void list_parameters() {
    for (const ChunkPlacement& c : plan_.chunks) {
      if (c.stage != stage_) continue;
      for (int position = c.first_layer; position < c.last_layer; ++position) {
        const int b = block_at(position);
        const BlockTensors& tensors = plan_.blocks[static_cast<std::size_t>(b)];
        for (const auto& [name, tensor] : tensors.persistent) {
          role_.persistent.push_back({tensor, position});
          if (is_fp8_scales(name)) scales_.push_back({position, tensor});
        }
        for (std::size_t p = 0; p < tensors.param.size(); ++p) {
          const bool shared = tensors.shared_with[p] >= 0;
          if (!shared) params_.push_back({position, b, static_cast<int>(p)});
        }
      }
    }
    if (!params_.empty()) role_.persistent.push_back({step_.norm_tensor(), -1});
    for (const ParamRef& p : params_) {
      const ParamState& s = step_.state(p);
      gradients_.insert(step_.grad_tensor(p));
      if (!s.sharded) role_.persistent.push_back({step_.param_tensor(p), p.position});
      else if (s.updated >= 0) role_.persistent.push_back({s.updated, p.position});
      role_.persistent.push_back({step_.shards_gradients() ? s.reduced : step_.grad_tensor(p), p.position});
      if (s.host_gradient >= 0) role_.persistent.push_back({s.host_gradient, p.position});
      for (const int t : step_.state(p).state) role_.persistent.push_back({t, p.position});
    }
  }

  void find_last_backwards(const std::vector<Slot>& slots) {
    for (const Slot& s : slots)
      if (s.pass == Pass::backward) {
        last_backward_[s.chunk] = s.microbatch;
        std::erase(backward_order_, s.chunk);
        backward_order_.push_back(s.chunk);
      }
  }

  /// Fills buckets in the order in which gradients become final: chunks by their last backward, layers and parameters from the back.
  void make_buckets() {
    const ExprContext at = frame_.program.mesh.context(first_rank());
    struct Open { Bucket bucket; double bytes = 0; };
    std::map<AxisSet, Open> open;  // What is reduced over other ranks than the rest has buckets of its own.
    const auto close = [&](Open& o, int position) {
      if (o.bucket.params.empty()) return;
      o.bucket.closes_at = position;
      closing_[position].push_back(buckets_.size());
      buckets_.push_back(std::move(o.bucket));
      o = {};
    };
    const Bytes first = plan_.settings.first_bucket > Bytes{0} ? plan_.settings.first_bucket : plan_.settings.bucket;
    for (const int c : backward_order_)
      for (int position = chunk(c).last_layer; position-- > chunk(c).first_layer;) {
        for (std::size_t i = params_.size(); i-- > 0;) {
          const ParamRef& p = params_[i];
          if (p.position != position || !step_.needs_dp(p)) continue;
          Open& o = open[step_.data_axes(p)];
          o.bucket.params.push_back(p);
          o.bytes += frame_.program.local_bytes(frame_.program.tensors[static_cast<std::size_t>(step_.grad_tensor(p))], at);
          const Bytes capacity = buckets_.empty() ? first : plan_.settings.bucket;
          if (reduces_on_the_way() && o.bytes >= capacity.value()) close(o, position);
        }
        // What is reduced after every microbatch must not wait for another chunk's.
        if (position == chunk(c).first_layer && (every_ || step_.shards_gradients()))
          for (auto& [axes, o] : open) close(o, position);
      }
    if (backward_order_.empty()) return;
    for (auto& [axes, o] : open) close(o, chunk(backward_order_.back()).first_layer);
  }

  /// Under FSDP a unit's gradients are reduced together, when the last of them is final.
  void make_unit_buckets() {
    for (const ChunkPlacement& c : plan_.chunks) {
      if (c.stage != stage_) continue;
      std::map<int, int> lowest;
      for (int position = c.last_layer; position-- > c.first_layer;) lowest[units_.unit_at(position)] = position;
      for (const auto& [unit, position] : lowest) {
        if (unit < 0) continue;
        closing_[position].push_back(buckets_.size());
        buckets_.push_back({units_.params_of(unit), position});
      }
    }
  }

  [[nodiscard]] bool reduces_on_the_way() const { return plan_.settings.overlap.grad_reduce || every_ || step_.shards_gradients(); }

  [[nodiscard]] int first_rank() const {
    for (int r = 0; r < frame_.program.mesh.ranks(); ++r)
      if (frame_.program.mesh.context(r).coord[static_cast<std::size_t>(Axis::pp)] == stage_) return r;
    throw std::logic_error("stage without ranks");
  }

  [[nodiscard]] static int base_of(const std::vector<ParamRef>& params) {
    return std::min_element(params.begin(), params.end(), [](const ParamRef& a, const ParamRef& b) { return a.position < b.position; })->position;
  }

  /// Gradients that are summed once more after their reduction go to the host at the end of the step.
  [[nodiscard]] bool early_to_host() {
    return step_.updates_on_host() && tied_parameter() < 0 && step_.reduce_tp(params_, base_of(params_)).body < 0;
  }

  void copy_to_host(const std::vector<ParamRef>& params, EventId after) {
    const int base = base_of(params);
    Call call{step_.to_host(params, base), frame_.copies_out, base};
    call.waits.push_back({after});
    call.record = true;
    on_host_ = add(call);
    for (const ParamRef& p : params) sent_to_host_.insert(p);
  }

  /// Gradients that no other rank adds to are final once their block's last backward is done.
  void send_to_host(int position, EventId done) {
    if (plan_.settings.dp > 1 || !step_.updates_on_host() || !early_to_host()) return;
    std::vector<ParamRef> here;
    for (const ParamRef& p : params_)
      if (p.position == position) here.push_back(p);
    if (!here.empty()) copy_to_host(here, done);
  }

  void reduce(const Bucket& bucket, EventId after, bool last = true) {
    const int base = base_of(bucket.params);
    const bool again = !reduced_before_.insert(bucket.params.front()).second;
    Call call{step_.reduce(bucket.params, base, again), frame_.dp, base};
    call.waits.push_back({after});
    call.record = true;
    reduced_ = add(call);
    if (early_to_host() && last) copy_to_host(bucket.params, reduced_);
    for (const ParamRef& p : bucket.params) live_gradients_.erase({step_.grad_tensor(p), p.position});
  }

  /// After the last backward: what was not reduced on the way, tied and norm gradients, the gradient norm, the update.
  void tail() {
    if (params_.empty()) return;
    std::vector<Wait> ready{{last_compute_}};
    if (!reduces_on_the_way())
      for (const Bucket& b : buckets_) reduce(b, last_compute_);
    if (reduced_ >= 0) ready.push_back({reduced_});
    const int base = base_of(params_);
    if (const auto made = step_.reduce_tp(params_, base); made.body >= 0) {
      Call call{made, frame_.tp, base};
      call.waits = ready;
      call.record = true;
      ready.push_back({add(call)});
    }
    if (const int tied = tied_parameter(); tied >= 0) {
      const ParamRef& p = params_[static_cast<std::size_t>(tied)];
      Call call{step_.reduce_tied(p, plan_.shape.stages), frame_.dp, p.position};
      call.waits = ready;
      call.record = true;
      ready.push_back({add(call)});
    }
    if (step_.updates_on_host()) {
      std::vector<ParamRef> rest;
      for (const ParamRef& p : params_)
        if (sent_to_host_.count(p) == 0) rest.push_back(p);
      if (!rest.empty()) {
        Call none{step_.to_host(rest, base_of(rest)), frame_.copies_out, base_of(rest)};
        none.waits = ready;
        none.record = true;
        on_host_ = add(none);
      }
      ready.push_back({on_host_});
    }
    Call norm{step_.gradient_norm(params_, base), frame_.compute, base};
    norm.waits = ready;
    for (const Wait& w : take_pending()) norm.waits.push_back(w);
    norm.record = true;
    const EventId norm_done = add(norm);
    if (!scales_.empty()) add({step_.update_scales(scales_), frame_.compute, scales_.front().first, 0, 0, {{last_compute_}}});
    update(norm_done);
  }

  void update(EventId norm_done) {
    std::vector<Wait> waits{{norm_done}};
    if (on_host_ >= 0) waits.push_back({on_host_});
    std::map<int, std::vector<ParamRef>> by_position;
    for (const ParamRef& p : params_) by_position[p.position].push_back(p);
    EventId updated = -1;
    for (const auto& [position, params] : by_position) {
      Call call{step_.parameter_update(params, position), frame_.compute, position};
      call.waits = waits;
      waits.clear();
      call.record = true;
      updated = add(call);
      updated_[position] = updated;
    }
    if (first_gather_ >= 0) wait_next_step(role_.step[static_cast<std::size_t>(first_gather_)], updated);
    if (std::any_of(params_.begin(), params_.end(), [this](const ParamRef& p) { return step_.sharded_optimizer(p); })) gather_parameters(updated);
    if (step_.updates_on_host()) wait_for_parameters(updated);
  }

  /// All-gathers in forward order, so that the next step's first layers have theirs first.
  void gather_parameters(EventId all_updated) {
    std::map<std::pair<int, AxisSet>, std::vector<ParamRef>> by_position;
    for (const ParamRef& p : params_)
      if (step_.sharded_optimizer(p) && !step_.state(p).sharded) by_position[{p.position, step_.data_axes(p)}].push_back(p);
    if (by_position.empty()) return;
    for (const auto& [at, params] : by_position) {
      const int position = at.first;
      Call call{step_.gather(params, position), frame_.dp, position};
      call.waits.push_back({plan_.settings.overlap.param_gather ? updated_.at(position) : all_updated});
      call.record = true;
      gathered_[position] = add(call);
    }
    // The next step reads gathered parameters: layer by layer as they arrive, or all before its first pass.
    std::map<int, bool> seen;
    for (Entry& e : role_.step) {
      if (e.stream != frame_.compute) continue;
      if (!plan_.settings.overlap.param_gather) {
        wait_next_step(e, gathered_.rbegin()->second);
        break;
      }
      const auto at = gathered_.find(e.layer);
      if (at != gathered_.end() && seen.insert({e.layer, true}).second) wait_next_step(e, at->second);
    }
  }

  void wait_for_parameters(EventId updated) {
    for (Entry& e : role_.step)
      if (e.stream == frame_.compute) return wait_next_step(e, updated);
  }

  /// Adds a wait for an event of the step before to an entry that exists already.
  void wait_next_step(Entry& e, EventId event) {
    const auto first = static_cast<std::int32_t>(role_.waits.size());
    for (std::int32_t w = 0; w < e.wait_count; ++w) role_.waits.push_back(Wait(role_.waits[static_cast<std::size_t>(e.first_wait + w)]));
    role_.waits.push_back({event, 1});
    e.first_wait = first;
    ++e.wait_count;
  }

  /// Index in params_ of the embedding that the first and the last stage share, or -1.
  [[nodiscard]] int tied_parameter() const {
    if (plan_.shape.stages < 2 || (stage_ != 0 && stage_ != plan_.shape.stages - 1)) return -1;
    for (std::size_t i = 0; i < params_.size(); ++i) {
      const ParamRef& p = params_[i];
      const ParamSpec& spec = plan_.blocks[static_cast<std::size_t>(p.block)].spec->params[static_cast<std::size_t>(p.param)];
      if (!spec.tied_to.empty()) return static_cast<int>(i);
      for (const BlockTensors& other : plan_.blocks)
        for (const ParamSpec& o : other.spec->params)
          if (other.spec != plan_.blocks[static_cast<std::size_t>(p.block)].spec && o.tied_to == plan_.blocks[static_cast<std::size_t>(p.block)].spec->name + "." + spec.name) return static_cast<int>(i);
    }
    return -1;
  }

  ProgramFrame& frame_;
  StepBodies& step_;
  const RolePlan& plan_;
  int stage_;
  bool blocking_;
  bool scatters_ = false;
  Role role_;
  EventId next_event_ = 0;
  EventId last_compute_ = -1, reduced_ = -1;
  int last_pass_ = -1;  ///< Entry of the block's pass before.
  std::map<int, BodyEnds> ends_;
  std::vector<Wait> pending_;
  std::set<int> cast_;                  ///< Positions whose weights have been cast to fp8.
  std::vector<std::pair<int, int>> scales_;  ///< Position and tensor of fp8 scales.
  ActivationOffload offload_;
  std::pair<int, EventId> leaving_{-1, -1};          ///< Position whose activations go out next, and the end of its forward.
  std::map<std::pair<int, int>, EventId> out_;       ///< In host memory since, by position and microbatch.
  std::map<int, EventId> arriving_;                  ///< On their way back, by position.
  UnitPlan units_;
  bool every_;                          ///< Gradients are reduced after every microbatch.
  EventId pass_start_ = -1, last_drop_ = -1;
  std::vector<EventId> pass_ends_;      ///< Of the positions of the pass in hand.
  std::map<int, EventId> whole_;        ///< Units gathered and not used yet.
  int first_gather_ = -1;
  std::set<int> gradients_;             ///< Gradient tensors.
  std::set<std::pair<int, int>> live_gradients_;  ///< Whole ones with storage, by tensor and position.
  std::map<std::string, int> allocating_;
  EventId on_host_ = -1;
  std::set<ParamRef> sent_to_host_;
  std::set<ParamRef> reduced_before_;   ///< First parameters of buckets reduced in this step.
  std::vector<ParamRef> params_;
  std::vector<Bucket> buckets_;
  std::map<int, std::vector<std::size_t>> closing_;
  std::map<int, int> last_backward_;
  std::vector<int> backward_order_;
  std::map<int, EventId> gathered_, updated_;
};

}  // namespace

bool syncs_every_microbatch(const StrategySettings& settings, bool shards_gradients) {
  if (settings.grad_sync != GradientSync::automatic) return settings.grad_sync == GradientSync::every;
  return shards_gradients && (!settings.fsdp.enabled || settings.pp == 1);
}

Role make_role(ProgramFrame& frame, StepBodies& step, const RolePlan& plan, int stage) { return RoleBuilder(frame, step, plan, stage).build(); }

}  // namespace rehearse
