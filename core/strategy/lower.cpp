#include "core/strategy/lower.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/program/body.hpp"
#include "core/program/validate/validate.hpp"
#include "core/strategy/bodies/recompute_groups.hpp"
#include "core/strategy/bodies/segments.hpp"
#include "core/strategy/bodies/split_backward.hpp"
#include "core/strategy/lower_checks.hpp"
#include "core/strategy/operators/fp8.hpp"
#include "core/strategy/roles/adversarial_step.hpp"
#include "core/strategy/roles/central_roles.hpp"
#include "core/strategy/roles/frame_setup.hpp"
#include "core/strategy/roles/gradient_placeholders.hpp"
#include "core/strategy/roles/roles.hpp"
#include "core/strategy/roles/skips.hpp"
#include "core/strategy/roles/update_in_backward.hpp"
#include "core/strategy/shares.hpp"
#include "core/strategy/stage_cuts.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

class Lowering {
 public:
  Lowering(const Workload& workload, const StrategySettings& settings, int ranks)
      : workload_(workload),
        settings_(completed(settings)),
        schedule_(*schedules().at(settings.schedule).value),
        ranks_(ranks),
        frame_{program_, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} {}

  void run() {
    check_axes(settings_, ranks_);
    check_workload(workload_, settings_);
    const int m = microbatches_of(workload_, settings_);
    const PlanRequest request{workload_, settings_, m};
    microbatches_ = microbatches_per_replica(settings_, workload_, m);
    for (const int own : microbatches_) schedule_.check({settings_.pp, settings_.virtual_stages, own});
    check_update_in_backward(request);
    layouts_ = plan_layouts(request);
    layouts_.updates_in_backward = updates_in_backward(settings_);
    layouts_.fresh_gradients = fresh_gradients(request);
    program_.name = workload_.network.name;
    program_.bodies.reserve(64);  // Task graphs are copied where a vector grows.
    program_.microbatches = m;
    program_.seed = workload_.training.seed;
    make_mesh();
    make_streams(frame_, settings_, schedule_, microbatches_.front());
    set_types(frame_, workload_);
    make_blocks(layouts_);
    if (workload_.network.adversarial()) {
      AdversarialStep step(frame_, {workload_, layouts_, settings_, schedule_, options_, block_at_, tensors_});
      make_replica_roles([&](int own, int) { return step.role(own); });
      count_work();
      return;
    }
    place_chunks();
    share_tied();
    link_skips(frame_, workload_.network, program_.chunks, tensors_);
    step_.emplace(frame_, workload_, tensors_, layouts_);
    make_bodies(*step_);
    vary_recompute(*step_);
    find_passing();
    make_roles(*step_);
    add_gradient_placeholders(program_, workload_.kernels, workload_.training, settings_);
    count_work();
  }

  [[nodiscard]] Program& program() { return program_; }

  void set_microbatches(int count) {
    schedule_.check({settings_.pp, settings_.virtual_stages, count});
    program_.microbatches = count;
    microbatches_.assign(microbatches_.size(), count);
    program_.roles.clear();
    program_.role_of_rank.clear();
    make_roles(*step_);
  }

 private:
  void make_mesh() {
    Island island;
    island.order = mesh_order(settings_);
    if (workload_.network.routing() != nullptr) island.expert_order = expert_order(settings_, island.order);
    program_.mesh = Mesh({island}, Join::none);
    program_.device_of_rank.resize(static_cast<std::size_t>(ranks_));
    std::iota(program_.device_of_rank.begin(), program_.device_of_rank.end(), 0);
  }

  void make_blocks(const LayoutPlan& plan) {
    const Network& net = workload_.network;
    options_.kernels = workload_.kernels;
    options_.context = settings_.context;
    options_.overlap_tp = settings_.overlap.tp;
    options_.batch = settings_.microbatch * settings_.dp;
    options_.sequence = workload_.training.sequence_length;
    program_.first_sample = first_samples(frame_, microbatches_, settings_);
    options_.sums_gradients = settings_.data_parallel == DataParallelism::parameter_server && settings_.dp > 1;
    options_.global_statistics = workload_.training.statistics == StatisticsScope::global;
    options_.overlap_tp_backward = settings_.overlap.tp_backward;
    options_.experts = plan_experts(frame_, workload_, settings_);
    block_at_ = net.order();
    for (std::size_t b = 0; b < net.blocks.size(); ++b) {
      tensors_.push_back(make_block_tensors(frame_, net.blocks[b], plan.blocks[b], options_,
                                            {settings_.recompute, settings_.recompute_modules}));
      tensors_.back().position =
          static_cast<int>(std::find(block_at_.begin(), block_at_.end(), static_cast<int>(b)) - block_at_.begin());
    }
  }

  /// Where both lie on one stage, a tied parameter is stored once, with the block that owns its name.
  void share_tied() {
    const Network& net = workload_.network;
    for (std::size_t b = 0; b < net.blocks.size(); ++b) {
      for (std::size_t p = 0; p < net.blocks[b].params.size(); ++p) {
        for (std::size_t o = 0; o < net.blocks.size(); ++o) {
          for (std::size_t q = 0; q < net.blocks[o].params.size(); ++q) {
            if ((b == o || lies_with(tensors_[b].position, tensors_[o].position)) &&
                net.blocks[b].params[p].tied_to == net.blocks[o].name + "." + net.blocks[o].params[q].name) {
              tensors_[b].param[p] = tensors_[o].param[q];
              tensors_[b].grad[p] = tensors_[o].grad[q];
              tensors_[b].shared_with[p] = tensors_[o].position;
            }
          }
        }
      }
    }
  }

  /// Whether every stage that holds the block at `position` holds that at `other` too.
  [[nodiscard]] bool lies_with(int position, int other) const {
    const auto holds = [](const ChunkPlacement& c, int at) { return at >= c.first_layer && at < c.last_layer; };
    return std::all_of(program_.chunks.begin(), program_.chunks.end(), [&](const ChunkPlacement& c) {
      return !holds(c, position) ||
             std::any_of(program_.chunks.begin(), program_.chunks.end(),
                         [&](const ChunkPlacement& o) { return o.stage == c.stage && holds(o, other); });
    });
  }

  void place_chunks() {
    const PipelineShape shape{settings_.pp, settings_.virtual_stages, program_.microbatches};
    const std::vector<int> cuts = chunk_cuts(workload_.network, settings_);
    for (int copy = 0; copy < schedule_.copies(); ++copy)
      for (int c = 0; c + 1 < static_cast<int>(cuts.size()); ++c)
        program_.chunks.push_back({c, copy, schedule_.stage_of(c, shape, copy), 0, nth(cuts, c), nth(cuts, c + 1)});
  }

  /// What goes from stage to stage at each boundary behind which another chunk begins.
  void find_passing() {
    for (const ChunkPlacement& chunk : program_.chunks) {
      if (chunk.first_layer == 0) continue;
      const int edge = nth(tensors_, nth(block_at_, chunk.first_layer)).in_edge;
      passing_[chunk.first_layer] = {StepBodies::Passing{edge, {}}, StepBodies::Passing{edge, {}}};
    }
    carry_skips(workload_.network, tensors_, program_.chunks, passing_);
  }

  void make_bodies(StepBodies& step) {
    const bool summed_as_shards = step.shards_gradients() && syncs_every_microbatch(settings_, true);
    options_.adds_pieces =
        !options_.kernels.fused_gradient_accumulation && program_.microbatches > 1 && !summed_as_shards;
    for (std::size_t b = 0; b < tensors_.size(); ++b) {
      const BlockSpec& spec = *tensors_[b].spec;
      BlockBodies made;
      BlockBody forward(frame_, tensors_[b], options_, spec.name + ".forward", Phase::forward);
      forward.forward();
      made.forward = forward.finish();
      const Phase first = tensors_[b].recompute_all ? Phase::recompute : Phase::input_grad;
      BlockBody backward(frame_, tensors_[b], options_, spec.name + ".backward", first);
      if (tensors_[b].recompute_all) backward.forward();
      backward.backward();
      made.backward = backward.finish();
      if (schedule_.splits_backward())
        split(b, made, {});
      else if (settings_.deferred_head_gradients > 0 && b + 1 == tensors_.size())
        split(b, made, head_gradients(b));
      if (schedule_.pairs())
        for (const int body : {made.forward.body, made.backward.body})
          if (body >= 0) cut_at_communication(nth(program_.bodies, body), frame_.compute, frame_.ep);
      if (frame_.fp8) made.weights = cast_weights(tensors_[b]);
      if (step.makes_gradients())
        overwrite_fresh_gradients(b, nth(program_.bodies, made.backward.body), syncs_every_microbatch(settings_, true));
      std::vector<int> integers;
      for (std::size_t t = 0; t < spec.tensors.size(); ++t)
        if (spec.tensors[t].is_input()) integers.push_back(static_cast<int>(t));
      if (!integers.empty()) made.input = step.input(static_cast<int>(b), integers);
      bodies_.push_back(made);
    }
  }

  /// Gradients of the products whose results the loss reads.
  [[nodiscard]] std::set<int> head_gradients(std::size_t b) const {
    std::set<int> out;
    const std::vector<OpSpec>& ops = tensors_[b].spec->ops;
    for (const OpSpec& loss : ops) {
      if (loss.kind != OpKind::cross_entropy) continue;
      for (const OpSpec& op : ops)
        if (op.kind == OpKind::linear && !op.frozen && op.outputs.front() == loss.inputs.front())
          out.insert(nth(tensors_[b].grad, op.params.front()));
    }
    if (out.empty())
      throw Error(ErrorKind::usage,
                  fmt::format("{} has no trained product whose result a loss reads as it is", workload_.network.name),
                  "framework.deferred_head_gradients", "set framework.deferred_head_gradients to 0");
    return out;
  }

  void split(std::size_t b, BlockBodies& made, const std::set<int>& gradients) {
    std::set<int> kept;
    for (const auto& [t, skip] : tensors_[b].skips_out) kept.insert(skip.value);
    const SplitBackward halves = split_backward(frame_, made.backward, kept, gradients);
    if (!gradients.empty() && halves.weight.body < 0)
      throw std::logic_error("a weight gradient to be deferred is needed at once");
    made.backward = halves.input;
    made.weight = halves.weight;
  }

  StepBodies::Made cast_weights(BlockTensors& block) {
    BlockBody body(frame_, block, options_, block.spec->name + ".weights_to_fp8", Phase::forward);
    return ops::fp8_cast_weights(body) ? body.finish() : StepBodies::Made{-1, -1};
  }

  /// Layers of one block that recompute unlike get bodies of their own (recompute_groups.hpp).
  void vary_recompute(const StepBodies& step) {
    body_at_ = block_at_;
    if (settings_.recompute != Recompute::full) return;
    if (schedule_.splits_backward() &&
        (settings_.recompute_layers > 1 || settings_.recompute_method == RecomputeMethod::block)) {
      throw Error(
          ErrorKind::usage,
          fmt::format(
              "schedule '{}' runs weight gradients later, for which layers that recompute unlike have no lowering",
              settings_.schedule),
          "strategy.recompute_layers", "set strategy.recompute_method to uniform and strategy.recompute_layers to 1");
    }
    RecomputeGroups made =
        make_recompute_groups(frame_, options_, settings_, tensors_, block_at_, program_.chunks, bodies_);
    body_at_ = std::move(made.body_at);
    groups_ = std::move(made.groups);
    if (!step.makes_gradients()) return;
    for (const auto& [block, body] : made.backwards)
      overwrite_fresh_gradients(static_cast<std::size_t>(block), nth(program_.bodies, body),
                                syncs_every_microbatch(settings_, true));
  }

  /// Gradients that get their storage in backward are written, not added to, by the block whose backward comes first.
  void overwrite_fresh_gradients(std::size_t b, Body& body, bool every) {
    ExprPool& e = program_.exprs;
    const bool once = every || program_.microbatches == 1;
    const ExprId adds = once ? ExprPool::kZero : e.apply(ExprOp::ne, e.variable(Var::microbatch), ExprPool::kZero);
    std::set<int> seen;
    for (const auto v : body.graph.vertices()) {
      auto* c = std::get_if<ComputeTask>(&body.graph[v].kind);
      if (c == nullptr || !c->accumulates) continue;
      for (const Operand& o : body.graph[v].operands) {
        const int tensor = nth(body.formals, o.formal).like;
        const bool fresh = nth(program_.tensors, tensor).lifetime == Lifetime::step;
        if (o.access == Access::update && fresh && first_gradient(b, tensor) && seen.insert(tensor).second)
          c->accumulate_if = adds;
      }
    }
  }

  /// Whether `tensor` is a gradient of block `b` to which no other block adds earlier in backward.
  [[nodiscard]] bool first_gradient(std::size_t b, int tensor) const {
    const BlockTensors& own = tensors_[b];
    for (std::size_t p = 0; p < own.grad.size(); ++p) {
      if (own.grad[p] != tensor) continue;
      for (std::size_t later = b + 1; later < tensors_.size(); ++later)
        if (std::find(tensors_[later].grad.begin(), tensors_[later].grad.end(), tensor) != tensors_[later].grad.end())
          return false;
      return true;
    }
    return false;
  }

  void make_roles(StepBodies& step) {
    const auto plan = [&](int microbatches) {
      return RolePlan{settings_, schedule_, {settings_.pp, settings_.virtual_stages, microbatches},
                      block_at_, body_at_,  groups_,
                      bodies_,   tensors_,  program_.chunks,
                      passing_};
    };
    if (settings_.data_parallel != DataParallelism::replicas && settings_.dp > 1) {
      // One process launches the kernels of all GPUs.
      if (settings_.data_parallel == DataParallelism::funnel)
        program_.process_of_rank.assign(static_cast<std::size_t>(ranks_), 0);
      make_central_roles(frame_, step, plan(program_.microbatches));
      return;
    }
    make_replica_roles([&](int own, int stage) { return make_role(frame_, step, plan(own), stage); });
  }

  /// A role per stage, for each number of microbatches that a replica may have.
  template <class MakeRole>
  void make_replica_roles(const MakeRole& make) {
    std::map<int, int> first_role;
    for (const int own : microbatches_) {
      if (!first_role.try_emplace(own, static_cast<int>(program_.roles.size())).second) continue;
      for (int s = 0; s < settings_.pp; ++s) {
        program_.roles.push_back(make(own, s));
        if (own != program_.microbatches) program_.roles.back().name += fmt::format(", {} microbatches", own);
      }
    }
    const Island& all = program_.mesh.islands().front();
    const auto stage = all.wheel(Axis::pp), copy = all.wheel(Axis::dp_replicate), shard = all.wheel(Axis::dp_shard);
    std::vector<int> role_of_replica;
    for (const int own : microbatches_) role_of_replica.push_back(first_role.at(own));
    for (int r = 0; r < ranks_; ++r)
      program_.role_of_rank.push_back(nth(role_of_replica, copy.at(r) * settings_.dp_shard + shard.at(r)) +
                                      stage.at(r));
  }

  void count_work() {
    const TrainingSettings& t = workload_.training;
    program_.samples_per_step = static_cast<double>(t.global_batch);
    program_.tokens_per_step = static_cast<double>(t.global_batch) * static_cast<double>(t.sequence_length);
    program_.model_flops_per_step = model_flops(workload_.network, t.global_batch, t.sequence_length).value();
  }

  const Workload& workload_;
  StrategySettings settings_;
  const Schedule& schedule_;
  int ranks_;
  std::vector<int> microbatches_;  ///< By replica.
  Program program_;
  LayoutPlan layouts_;
  ProgramFrame frame_;
  BlockOptions options_;
  std::vector<BlockTensors> tensors_;
  std::vector<int> block_at_, body_at_;
  std::map<int, int> groups_;
  std::vector<BlockBodies> bodies_;
  std::map<int, std::array<StepBodies::Passing, 2>> passing_;
  std::optional<StepBodies> step_;
};

}  // namespace

Program lower(const Workload& workload, const StrategySettings& strategy, int ranks) {
  Lowering lowering(workload, strategy, ranks);
  lowering.run();
  return std::move(lowering.program());
}

Program lower(const Workload& workload, const StrategySettings& strategy, const Cluster& cluster) {
  check_machines(workload, strategy, cluster);
  const bool open =
      workload.training.precision == Precision::fp8_mixed && workload.training.fp8.copies == Fp8Copies::automatic;
  return open ? lower(on_machines(workload, cluster), strategy, cluster.device_count())
              : lower(workload, strategy, cluster.device_count());
}

struct StepLowering::Impl {
  Workload workload;
  Lowering lowering;

  Impl(Workload w, const StrategySettings& strategy, const Cluster& cluster)
      : workload(std::move(w)), lowering(workload, strategy, cluster.device_count()) {
    lowering.run();
  }
};

StepLowering::StepLowering(Workload workload, const StrategySettings& strategy, const Cluster& cluster) {
  check_machines(workload, strategy, cluster);
  impl_ = std::make_unique<Impl>(on_machines(std::move(workload), cluster), strategy, cluster);
}
StepLowering::StepLowering(StepLowering&&) noexcept = default;
StepLowering& StepLowering::operator=(StepLowering&&) noexcept = default;
StepLowering::~StepLowering() = default;

const Program& StepLowering::program() const { return impl_->lowering.program(); }
void StepLowering::set_microbatches(int count) { impl_->lowering.set_microbatches(count); }

Workload on_machines(Workload workload, const Cluster& cluster) {
  Fp8Copies& copies = workload.training.fp8.copies;
  // Data centres' Blackwell and later; not workstations' (compute capability 12).
  const auto reads_either = [](const Cluster::Part& part) {
    return part.gpu->compute_capability >= 100 && part.gpu->compute_capability / 10 != 12;
  };
  if (copies == Fp8Copies::automatic)
    copies =
        std::all_of(cluster.parts().begin(), cluster.parts().end(), reads_either) ? Fp8Copies::one : Fp8Copies::two;
  return workload;
}

}  // namespace rehearse
