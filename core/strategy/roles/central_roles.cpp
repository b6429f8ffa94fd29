#include "core/strategy/roles/central_roles.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/program/body.hpp"
#include "core/strategy/bodies/central_bodies.hpp"

namespace rehearse {

namespace {

/// Parameters in model order, cut into buckets and dealt to the owners.
std::vector<CentralBucket> make_buckets(ProgramFrame& frame, StepBodies& step, const RolePlan& plan, int owners) {
  std::vector<CentralBucket> out;
  std::vector<double> load(static_cast<std::size_t>(owners), 0.0);
  const ExprContext at = frame.program.mesh.context(0);
  CentralBucket open;
  double bytes = 0;
  const auto close = [&] {
    if (open.params.empty()) return;
    const auto least = std::min_element(load.begin(), load.end());
    open.owner = static_cast<int>(least - load.begin());
    *least += bytes;
    const auto [low, high] = std::minmax_element(open.params.begin(), open.params.end());
    open.base = low->position;
    open.highest = high->position;
    out.push_back(std::move(open));
    open = {};
    bytes = 0;
  };
  for (std::size_t position = 0; position < plan.block_at.size(); ++position) {
    const int b = plan.block_at[position];
    const BlockTensors& block = nth(plan.blocks, b);
    for (std::size_t p = 0; p < block.param.size(); ++p) {
      if (block.shared_with[p] >= 0) continue;
      const ParamRef ref{static_cast<int>(position), b, static_cast<int>(p)};
      open.params.push_back(ref);
      bytes += frame.program.local_bytes(nth(frame.program.tensors, step.param_tensor(ref)), at);
      if (bytes >= plan.settings.bucket.value()) close();
    }
  }
  close();
  return out;
}

class CentralRole {
 public:
  CentralRole(ProgramFrame& frame, StepBodies& step, CentralBodies& bodies, const RolePlan& plan,
              const std::vector<CentralBucket>& buckets, int rank)
      : frame_(frame),
        step_(step),
        bodies_(bodies),
        plan_(plan),
        buckets_(buckets),
        rank_(rank),
        funnel_(plan.settings.data_parallel == DataParallelism::funnel) {}

  Role build(const std::string& name) {
    role_.name = name;
    hold_parameters();
    const int m = plan_.shape.microbatches;
    for (int i = 0; i < m; ++i) {
      if (i == 0 || funnel_) pull(i);
      forward(i);
      backward(i, i + 1 == m || funnel_);
      if (i + 1 == m || funnel_) drop(i);
    }
    update();
    role_.events = next_event_;
    return std::move(role_);
  }

 private:
  EventId add(const StepBodies::Made& made, StreamId stream, int layer, int microbatch,
              const std::vector<EventId>& waits) {
    Entry e;
    e.body = made.body;
    e.bindings = made.bindings;
    e.stream = stream;
    e.layer = layer;
    e.microbatch = microbatch;
    e.first_wait = static_cast<std::int32_t>(role_.waits.size());
    for (const EventId w : waits)
      if (w >= 0) role_.waits.push_back({w});
    e.wait_count = static_cast<std::int32_t>(role_.waits.size()) - e.first_wait;
    e.record = next_event_++;
    role_.step.push_back(e);
    return e.record;
  }

  [[nodiscard]] bool owns(const CentralBucket& b) const { return b.owner == rank_; }

  void hold_parameters() {
    bool any = false;
    for (const CentralBucket& b : buckets_) {
      if (!owns(b)) {
        foreign_.insert(foreign_.end(), b.params.begin(), b.params.end());
        continue;
      }
      any = true;
      for (const ParamRef& p : b.params) {
        role_.persistent.push_back({step_.param_tensor(p), p.position});
        role_.persistent.push_back({step_.grad_tensor(p), p.position});
        for (const int t : step_.state(p).state) role_.persistent.push_back({t, p.position});
        own_.push_back(p);
      }
    }
    if (any) role_.persistent.push_back({step_.norm_tensor(), -1});
  }

  void pull(int microbatch) {
    arrived_.clear();
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      const CentralBucket& b = buckets_[i];
      const int number = static_cast<int>(i);
      // A worker's buffers of the pass before are free once that is over.
      const std::vector<EventId> waits{last_};
      EventId done{};
      if (funnel_)
        done = add(bodies_.broadcast(b, number, owns(b)), frame_.dp, b.base, microbatch, waits);
      else if (owns(b))
        done = sent_ = add(bodies_.send_parameters(b, number), frame_.dp, b.base, microbatch, waits);
      else
        done = add(bodies_.receive_parameters(b, number), frame_.dp_replicate, b.base, microbatch, waits);
      if (owns(b)) pulled_.push_back(static_cast<int>(role_.step.size()) - 1);
      if (!owns(b) || funnel_) arrived_.push_back({b.base, done});
    }
    if (foreign_.empty()) return;
    const int base = lowest(foreign_);
    last_ = add(bodies_.make_gradients(foreign_, base), frame_.compute, base, microbatch, {});
  }

  static int lowest(const std::vector<ParamRef>& params) {
    return std::min_element(params.begin(), params.end())->position;
  }

  std::vector<EventId> inputs(int position, int microbatch) {
    const int b = nth(plan_.block_at, position);
    const BlockBodies& block = nth(plan_.bodies, b);
    if (block.input.body < 0) return {};
    if (!funnel_) return {add(block.input, frame_.io, position, microbatch, {})};
    std::vector<CentralInput> tensors;
    const BlockTensors& t = nth(plan_.blocks, b);
    for (std::size_t i = 0; i < t.value.size(); ++i)
      if (t.spec->tensors[i].is_input()) tensors.push_back({t.value[i], t.spec->tensors[i].field});
    return {add(rank_ == 0 ? bodies_.load_inputs(b, tensors) : bodies_.receive_inputs(b, tensors),
                rank_ == 0 ? frame_.io : frame_.dp, position, microbatch, {})};
  }

  void forward(int microbatch) {
    for (int position = 0; position < static_cast<int>(plan_.block_at.size()); ++position) {
      std::vector<EventId> waits = inputs(position, microbatch);
      // A funnel copies the whole network before any of it runs; a worker waits for what a block needs.
      for (const auto& [from, event] : arrived_)
        if ((funnel_ && position == 0) || from <= position) waits.push_back(event);
      std::erase_if(arrived_, [&](const auto& a) { return funnel_ || a.first <= position; });
      last_ =
          add(nth(plan_.bodies, nth(plan_.block_at, position)).forward, frame_.compute, position, microbatch, waits);
    }
    if (funnel_ && bodies_.has_outputs())
      last_ = add(bodies_.outputs(true, rank_ == 0), frame_.dp, 0, microbatch, {last_});
  }

  void backward(int microbatch, bool pushes) {
    std::vector<EventId> waits;
    if (funnel_ && bodies_.has_outputs())
      waits.push_back(add(bodies_.outputs(false, rank_ == 0), frame_.dp, 0, microbatch, {last_}));
    for (int position = static_cast<int>(plan_.block_at.size()); position-- > 0;) {
      last_ =
          add(nth(plan_.bodies, nth(plan_.block_at, position)).backward, frame_.compute, position, microbatch, waits);
      waits.clear();
      if (pushes && !funnel_) push(position, microbatch);
    }
    if (pushes && funnel_) push(0, microbatch);
  }

  /// Gradients of the buckets that are final once `position` is done; of all of them in a funnel.
  void push(int position, int microbatch) {
    for (std::size_t i = buckets_.size(); i-- > 0;) {
      const CentralBucket& b = buckets_[i];
      if (!funnel_ && b.base != position) continue;
      const int number = static_cast<int>(i);
      if (funnel_)
        reduced_ = add(bodies_.reduce(b, number, owns(b)), frame_.dp, b.base, microbatch, {last_});
      else if (owns(b))
        received_ = add(bodies_.receive_gradients(b, number), frame_.dp_replicate, b.base, microbatch, {last_});
      else
        pushed_ = add(bodies_.send_gradients(b, number), frame_.dp, b.base, microbatch, {last_});
    }
  }

  /// Copies of what others own are given back.
  void drop(int microbatch) {
    if (foreign_.empty()) return;
    const int base = lowest(foreign_);
    add(step_.drop_unit(foreign_, base), frame_.compute, base, microbatch, {});
  }

  void update() {
    if (own_.empty()) return;
    const int base = lowest(own_);
    // Without clipping the norm has no tasks of its own to wait with.
    std::vector<EventId> waits{last_, reduced_, received_, sent_};
    const EventId norm = add(step_.gradient_norm(own_, base), frame_.compute, base, 0, waits);
    waits.push_back(norm);
    std::map<int, std::vector<ParamRef>> by_position;
    for (const ParamRef& p : own_) by_position[p.position].push_back(p);
    EventId updated = norm;
    for (const auto& [position, params] : by_position)
      updated = add(step_.parameter_update(params, position), frame_.compute, position, 0, waits);
    // The next step hands out what this one has updated.
    for (const int entry : pulled_) {
      Entry& e = nth(role_.step, entry);
      const auto first = static_cast<std::int32_t>(role_.waits.size());
      for (std::int32_t w = 0; w < e.wait_count; ++w) role_.waits.push_back(Wait(nth(role_.waits, e.first_wait + w)));
      role_.waits.push_back({updated, 1});
      e.first_wait = first;
      ++e.wait_count;
    }
  }

  ProgramFrame& frame_;
  StepBodies& step_;
  CentralBodies& bodies_;
  const RolePlan& plan_;
  const std::vector<CentralBucket>& buckets_;
  int rank_;
  bool funnel_;
  Role role_;
  EventId next_event_ = 0;
  EventId last_ = -1;  ///< End of the compute stream's work so far.
  EventId reduced_ = -1, received_ = -1, sent_ = -1, pushed_ = -1;
  std::vector<ParamRef> own_, foreign_;
  std::vector<std::pair<int, EventId>> arrived_;  ///< Lowest position that needs it, and when it is there.
  std::vector<int> pulled_;                       ///< Entries that hand out own parameters.
};

}  // namespace

void make_central_roles(ProgramFrame& frame, StepBodies& step, const RolePlan& plan) {
  const int ranks = plan.settings.dp;
  const bool funnel = plan.settings.data_parallel == DataParallelism::funnel;
  const std::vector<CentralBucket> buckets = make_buckets(frame, step, plan, funnel ? 1 : plan.settings.servers);
  int owners = 0;
  for (const CentralBucket& b : buckets) owners = std::max(owners, b.owner + 1);
  CentralBodies bodies(frame, step, plan);
  Program& p = frame.program;
  for (int r = 0; r < std::min(owners + 1, ranks); ++r) {
    const std::string others = funnel ? "other GPUs" : "workers";
    p.roles.push_back(CentralRole(frame, step, bodies, plan, buckets, r)
                          .build(r < owners ? fmt::format("{} {}", funnel ? "GPU" : "server", r) : others));
  }
  for (int r = 0; r < ranks; ++r) p.role_of_rank.push_back(std::min(r, static_cast<int>(p.roles.size()) - 1));
}

}  // namespace rehearse
