#include "core/strategy/roles/stage_gradients.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/strategy/operators/fp8.hpp"

namespace rehearse {

StageGradients::StageGradients(ProgramFrame& frame, StepBodies& step, const RolePlan& plan, int stage,
                               RoleEntries& entries, const UnitPlan& units)
    : frame_(frame),
      step_(step),
      plan_(plan),
      stage_(stage),
      entries_(entries),
      units_(units),
      every_((frame.program.microbatches > 1 || step.shards_gradients()) &&
             syncs_every_microbatch(plan.settings, step.shards_gradients())) {}

void StageGradients::plan(const std::vector<Slot>& slots) {
  list_parameters();
  find_last_passes(slots);
  if (plan_.settings.fsdp.enabled && units_.any())
    make_unit_buckets();
  else
    make_buckets();
}

void StageGradients::list_parameters() {
  for (const ChunkPlacement& c : plan_.chunks) {
    if (c.stage != stage_) continue;
    for (int position = c.first_layer; position < c.last_layer; ++position) {
      const int b = nth(plan_.block_at, position);
      const BlockTensors& tensors = nth(plan_.blocks, b);
      for (const auto& [name, tensor] : tensors.persistent) {
        entries_.role().persistent.push_back({tensor, position});
        if (nth(frame_.program.tensors, tensor).role == TensorRole::fp8_scales) scales_.emplace_back(position, tensor);
      }
      for (std::size_t p = 0; p < tensors.param.size(); ++p) {
        if (tensors.shared_with[p] >= 0) continue;
        const ParamRef ref{position, b, static_cast<int>(p)};
        const ParamState& s = step_.state(ref);
        if (s.frozen)
          entries_.role().persistent.push_back({s.sharded ? s.updated : tensors.param[p], position});
        else
          params_.push_back(ref);
      }
    }
  }
  std::sort(params_.begin(), params_.end());  // Stages that hold copies of the same chunks list them alike.
  std::vector<Role::Persistent>& held = entries_.role().persistent;
  if (!params_.empty()) held.push_back({step_.norm_tensor(), -1});
  const ExprContext here = frame_.program.mesh.context(first_rank());
  Bytes whole;
  for (const ParamRef& p : params_)
    whole += Bytes{frame_.program.local_bytes(nth(frame_.program.tensors, step_.grad_tensor(p)), here)};
  const bool in_buckets = !plan_.settings.fsdp.enabled;
  if (const int buffers = in_buckets ? step_.gradient_buffers(plan_.settings.bucket, whole) : -1; buffers >= 0)
    held.push_back({buffers, -1});
  for (const ParamRef& p : params_) {
    const ParamState& s = step_.state(p);
    gradients_.insert(step_.grad_tensor(p));
    if (!s.sharded)
      held.push_back({step_.param_tensor(p), p.position});
    else if (s.updated >= 0)
      held.push_back({s.updated, p.position});
    if (!s.passes) held.push_back({s.divided ? s.reduced : step_.grad_tensor(p), p.position});
    if (s.host_gradient >= 0) held.push_back({s.host_gradient, p.position});
    for (const int t : step_.state(p).state) held.push_back({t, p.position});
  }
}

void StageGradients::find_last_passes(const std::vector<Slot>& slots) {
  std::vector<std::pair<int, int>> order;  // Chunk and copy.
  for (const Slot& s : slots)
    if (s.pass == Pass::backward || s.pass == Pass::backward_weight) {
      last_pass_[s.chunk] = s.microbatch;
      std::erase(order, std::pair(s.chunk, s.copy));
      order.emplace_back(s.chunk, s.copy);
    }
  for (const auto& [chunk, copy] : order) chunks_.push_back(plan_.chunk(chunk, copy));
  find_final_positions();
}

bool StageGradients::is_last(const Slot& slot) const { return slot.microbatch == last_pass_.at(slot.chunk); }

/// Index into chunks_; -1 for positions of other stages.
int StageGradients::chunk_at(int position) const {
  const auto at = std::find_if(chunks_.begin(), chunks_.end(), [position](const ChunkPlacement& c) {
    return position >= c.first_layer && position < c.last_layer;
  });
  return at == chunks_.end() ? -1 : static_cast<int>(at - chunks_.begin());
}

/// A gradient is final once its block has passed, or the block of a later chunk that shares the parameter.
void StageGradients::find_final_positions() {
  std::map<std::pair<int, int>, std::size_t> at;  // By tensor and position.
  for (std::size_t i = 0; i < params_.size(); ++i) {
    at[{step_.param_tensor(params_[i]), params_[i].position}] = i;
    final_.push_back(params_[i].position);
  }
  for (const ChunkPlacement& c : chunks_) {
    for (int q = c.first_layer; q < c.last_layer; ++q) {
      const BlockTensors& block = nth(plan_.blocks, nth(plan_.block_at, q));
      for (std::size_t s = 0; s < block.param.size(); ++s)
        if (const auto owner = at.find({block.param[s], block.shared_with[s]});
            block.shared_with[s] >= 0 && owner != at.end())
          if (int& position = final_[owner->second]; chunk_at(q) > chunk_at(position)) position = q;
    }
  }
  for (std::size_t i = params_.size(); i-- > 0;) final_at_[final_[i]].push_back(params_[i]);
}

/// Fills buckets in the order in which gradients become final: chunks by their last pass, layers and parameters from
/// the back.
void StageGradients::make_buckets() {
  const ExprContext at = frame_.program.mesh.context(first_rank());
  struct Open {
    Bucket bucket;
    double bytes = 0;
  };
  std::map<AxisSet, Open> open;  // What is reduced over other ranks than the rest has buckets of its own.
  const auto close = [&](Open& o, int position) {
    if (o.bucket.params.empty()) return;
    o.bucket.closes_at = position;
    closing_[position].push_back(buckets_.size());
    buckets_.push_back(std::move(o.bucket));
    o = {};
  };
  const Bytes first = plan_.settings.first_bucket > Bytes{0} ? plan_.settings.first_bucket : plan_.settings.bucket;
  const auto fill = [&](int position) {
    for (const ParamRef& p : final_at_[position]) {
      if (!step_.needs_dp(p)) continue;
      Open& o = open[step_.data_axes(p)];
      o.bucket.params.push_back(p);
      o.bytes += frame_.program.local_bytes(nth(frame_.program.tensors, step_.grad_tensor(p)), at);
      const Bytes capacity = buckets_.empty() ? first : plan_.settings.bucket;
      if (reduces_on_the_way() && o.bytes >= capacity.value()) close(o, position);
    }
  };
  for (const ChunkPlacement& c : chunks_) {
    for (int position = c.last_layer; position-- > c.first_layer;) {
      if (position != plan_.deferred_position()) fill(position);
      // What is reduced after every microbatch must not wait for another chunk's.
      if (position == c.first_layer && (every_ || step_.shards_gradients()))
        for (auto& [axes, o] : open) close(o, position);
    }
  }
  if (chunks_.empty()) return;
  for (auto& [axes, o] : open) close(o, chunks_.back().first_layer);
  if (chunk_at(plan_.deferred_position()) < 0) return;
  fill(plan_.deferred_position());
  for (auto& [axes, o] : open) close(o, plan_.deferred_position());
}

/// Under FSDP a unit's gradients are reduced together, when the last of them is final; experts' over the ranks of their
/// own view.
void StageGradients::make_unit_buckets() {
  for (const ChunkPlacement& c : plan_.chunks) {
    if (c.stage != stage_) continue;
    std::map<int, int> lowest;
    for (int position = c.last_layer; position-- > c.first_layer;) lowest[units_.unit_at(position)] = position;
    for (const auto& [unit, position] : lowest) {
      if (unit < 0) continue;
      std::map<AxisSet, std::vector<ParamRef>> alike;
      for (const ParamRef& p : units_.params_of(unit))
        if (!step_.state(p).frozen && step_.state(p).divided) alike[step_.data_axes(p)].push_back(p);
      for (auto& [axes, params] : alike) {
        closing_[position].push_back(buckets_.size());
        buckets_.push_back({std::move(params), position});
      }
    }
  }
}

int StageGradients::with_storage(int bindings, int position) {
  if (!step_.makes_gradients()) return bindings;
  BindingSet set = nth(frame_.program.binding_sets, bindings);
  std::string key = std::to_string(bindings);
  for (Binding& b : set) {
    const Tensor& t = nth(frame_.program.tensors, b.tensor);
    if (gradients_.count(b.tensor) == 0 || t.lifetime != Lifetime::step) continue;
    b.allocate = live_.insert({b.tensor, position + b.instance.layer_delta}).second;
    key += b.allocate ? '+' : ' ';
  }
  const auto [at, fresh] = allocating_.try_emplace(key, static_cast<int>(frame_.program.binding_sets.size()));
  if (fresh) frame_.program.binding_sets.push_back(std::move(set));
  return at->second;
}

bool StageGradients::reduces_on_the_way() const {
  return plan_.settings.overlap.grad_reduce || every_ || step_.shards_gradients();
}

bool StageGradients::closes(const Slot& slot, int position) const {
  return (every_ || is_last(slot)) && reduces_on_the_way() && closing_.count(position) != 0;
}

void StageGradients::finished(const Slot& slot, int position, EventId done) {
  update_early();  // What the block before reduced, beside this one's backward.
  if (closes(slot, position)) {
    for (const std::size_t i : closing_.at(position)) {
      reduce(buckets_[i], done, is_last(slot));
      if (step_.updates_in_backward()) early_.push_back({buckets_[i].params, reduced_});
    }
  }
  if (is_last(slot)) send_to_host(position, done);
  if (!step_.updates_in_backward()) return;
  std::vector<ParamRef> here;
  for (auto p = final_at_[position].rbegin(); p != final_at_[position].rend(); ++p)
    if (!step_.state(*p).divided) here.push_back(*p);
  if (here.empty()) return;
  early_.push_back({std::move(here), done});
  update_early();
}

EventId StageGradients::update_early() {
  for (const auto& [params, after] : early_) {
    const int base = base_of(params);
    RoleCall call{step_.parameter_update(params, base), frame_.compute, base};
    if (after >= 0) call.waits.push_back({after});
    call.record = true;
    updated_ = entries_.add(call);
  }
  early_.clear();
  return updated_;
}

void StageGradients::finished_late(int position, EventId done) {
  if (!reduces_on_the_way() || !closing_.contains(position)) return;
  for (const std::size_t i : closing_.at(position)) reduce(buckets_[i], done, true);
}

void StageGradients::reduce(const Bucket& bucket, EventId after, bool last) {
  const int base = base_of(bucket.params);
  const bool again = !reduced_before_.insert(bucket.params.front()).second;
  RoleCall call{step_.reduce(bucket.params, base, again), frame_.dp, base};
  call.waits.push_back({after});
  call.record = true;
  reduced_ = entries_.add(call);
  if (early_to_host() && last) copy_to_host(bucket.params, reduced_);
  for (const ParamRef& p : bucket.params) live_.erase({step_.grad_tensor(p), p.position});
}

void StageGradients::reduce_rest(EventId after) {
  if (reduces_on_the_way()) return;
  for (const Bucket& b : buckets_) reduce(b, after, true);
}

/// Gradients that are summed once more after their reduction go to the host at the end of the step.
bool StageGradients::early_to_host() {
  if (!early_to_host_)
    early_to_host_ = step_.updates_on_host() && frame_.chunk_copies == 1 && tied_parameter() == nullptr &&
                     step_.reduce_tp(params_, base_of(params_)).body < 0;
  return *early_to_host_;
}

void StageGradients::copy_to_host(const std::vector<ParamRef>& params, EventId after) {
  const int base = base_of(params);
  RoleCall call{step_.to_host(params, base), frame_.copies_out, base};
  call.waits.push_back({after});
  call.record = true;
  on_host_ = entries_.add(call);
  for (const ParamRef& p : params) sent_to_host_.insert(p);
}

/// Gradients that no other rank adds to are final once their block's last backward is done.
void StageGradients::send_to_host(int position, EventId done) {
  if (plan_.settings.dp * plan_.settings.cp > 1 || !step_.updates_on_host() || !early_to_host()) return;
  std::vector<ParamRef> here(final_at_[position].rbegin(), final_at_[position].rend());
  if (!here.empty()) copy_to_host(here, done);
}

void StageGradients::send_rest_to_host(const std::vector<Wait>& ready) {
  std::vector<ParamRef> rest;
  for (const ParamRef& p : params_)
    if (sent_to_host_.count(p) == 0) rest.push_back(p);
  if (rest.empty()) return;
  RoleCall call{step_.to_host(rest, base_of(rest)), frame_.copies_out, base_of(rest)};
  call.waits = ready;
  call.record = true;
  on_host_ = entries_.add(call);
}

int StageGradients::first_rank() const {
  ExprContext at;
  nth(at.coord, Axis::pp) = stage_;
  return frame_.program.mesh.rank_at(0, at.coord);
}

int StageGradients::base_of(const std::vector<ParamRef>& params) {
  return std::min_element(params.begin(), params.end(),
                          [](const ParamRef& a, const ParamRef& b) { return a.position < b.position; })
      ->position;
}

/// Whether another stage holds a copy of the parameter under a name of its own, or this is such a copy.
bool StageGradients::shared_name(const ParamRef& p) const {
  const BlockTensors& block = nth(plan_.blocks, p.block);
  const ParamSpec& spec = nth(block.spec->params, p.param);
  if (!spec.tied_to.empty()) return true;
  for (const BlockTensors& other : plan_.blocks)
    for (std::size_t q = 0; q < other.spec->params.size(); ++q)
      if (other.spec != block.spec && other.shared_with[q] < 0 &&
          other.spec->params[q].tied_to == block.spec->name + "." + spec.name)
        return true;
  return false;
}

const ParamRef* StageGradients::tied_parameter() const {
  if (plan_.shape.stages < 2 || (stage_ != 0 && stage_ != plan_.shape.stages - 1)) return nullptr;
  const auto at = std::find_if(params_.begin(), params_.end(), [this](const ParamRef& p) { return shared_name(p); });
  return at == params_.end() ? nullptr : &*at;
}

}  // namespace rehearse
