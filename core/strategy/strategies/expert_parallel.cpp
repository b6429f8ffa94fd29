// Expert parallelism (Shazeer et al. 2017; GShard, Lepikhin et al. 2020): experts are dealt to the ranks of a stage in
// a view of their own, etp * ep * edp, and tokens travel to them. Gradients of experts are reduced over their copies
// (edp) only.

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/bodies/body_builder.hpp"
#include "core/strategy/no_lowering.hpp"
#include "core/strategy/operators/expert_plan.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

int copies_of(const StrategySettings& s) { return s.dp * s.cp * s.tp / (s.ep * s.etp); }

void must_divide(const char* axis, int size, const char* what, std::int64_t count) {
  if (count % size == 0) return;
  std::string valid;
  for (int k = 1; k <= count && k <= 256; ++k)
    if (count % k == 0) valid += (valid.empty() ? "" : ", ") + std::to_string(k);
  refuse_at(fmt::format("strategy.{}", axis), fmt::format("{}({}) does not divide {}({})", axis, size, what, count),
            fmt::format("valid for this model: {}", valid));
}

std::int64_t expert_width(const Network& network) {
  for (const BlockSpec& block : network.blocks)
    for (const TensorSpec& t : block.tensors)
      for (const Dim& d : t.shape)
        if (d.tag == DimTag::expert_ffn) return d.size;
  return 1;
}

bool biased_experts(const Network& network) {
  return std::any_of(network.blocks.begin(), network.blocks.end(), [](const BlockSpec& block) {
    return std::any_of(block.ops.begin(), block.ops.end(),
                       [](const OpSpec& op) { return op.kind == OpKind::grouped_linear && op.params.size() > 1; });
  });
}

/// Ranks that share one copy of a token under hierarchical dispatch; 0 under a single exchange.
int ranks_per_copy(const StrategySettings& s, const Routing& r) {
  if (s.dispatch == Dispatch::all_to_all) return 0;
  if (s.dispatch_node > 0) return s.dispatch_node;
  return r.groups > 1 && s.ep % r.groups == 0 ? static_cast<int>(s.ep / r.groups) : 0;
}

void check_dispatch(const StrategySettings& s, const Routing& r) {
  if (s.dispatch == Dispatch::all_to_all) return;
  const int node = ranks_per_copy(s, r);
  if (node == 0)
    refuse_at("strategy.dispatch_node",
              fmt::format("hierarchical dispatch: ep({}) is not divided into the {} groups of the model's routing",
                          s.ep, r.groups),
              "state strategy.dispatch_node: how many neighbouring ranks one copy of a token serves");
  if (s.ep % node != 0 || s.ep == node)
    refuse_at(
        "strategy.dispatch_node",
        fmt::format("hierarchical dispatch: ep({}) / dispatch_node({}) makes no two or more equal nodes", s.ep, node),
        "choose a divisor of ep below it, or strategy.dispatch all_to_all");
}

class ExpertParallel final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override { return request.workload.network.routing() != nullptr; }

  void check_axes(const PlanRequest& request) const override {
    const StrategySettings& s = request.settings;
    const Routing& r = *request.workload.network.routing();
    const ExpertSettings& e = request.workload.training.experts;
    must_divide("ep", s.ep, "experts", r.experts);
    must_divide("etp", s.etp, "the experts' inner size", expert_width(request.workload.network));
    if (s.etp > 1 && biased_experts(request.workload.network))
      throw NoLowering(
          fmt::format(
              "etp({}) has no lowering for experts with biases: every rank would add the whole of one to its term",
              s.etp),
          "strategy.etp", "set strategy.etp to 1");
    if ((s.dp * s.cp * s.tp) % (s.ep * s.etp) != 0)
      refuse_at("strategy.ep",
                fmt::format("etp({}) * ep({}) = {} does not divide dp({}) * cp({}) * tp({}) = {}", s.etp, s.ep,
                            s.etp * s.ep, s.dp, s.cp, s.tp, s.dp * s.cp * s.tp),
                "experts use the ranks of one stage: etp * ep * edp = dp * cp * tp");
    if (s.tp > 1 && !s.sequence_parallel)
      refuse_at("strategy.sequence_parallel",
                fmt::format("experts with tp({}) need sequence_parallel: without it all ranks of a group hold the same "
                            "tokens and would send each {} times",
                            s.tp, s.tp),
                "set strategy.sequence_parallel to true");
    if (e.pad_to_capacity && e.capacity_factor <= 0)
      refuse_at("training.experts.pad_to_capacity", "there is no capacity to pad to: capacity_factor is 0",
                "set training.experts.capacity_factor, for example to 1.25");
    check_dispatch(s, r);
  }

  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    const StrategySettings& s = request.settings;
    const auto& blocks = request.workload.network.blocks;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      for (std::size_t t = 0; t < blocks[b].tensors.size(); ++t)
        plan.blocks[b].tensors[t] = rows_layout(blocks[b].tensors[t].shape, s, plan.blocks[b].tensors[t]);
      for (std::size_t p = 0; p < blocks[b].params.size(); ++p) {
        Layout& layout = plan.blocks[b].params[p];
        const Shape& shape = blocks[b].params[p].shape;
        if (shape.front().tag != DimTag::experts) continue;
        // Named even where it is one rank, so that the layout says which view it is of.
        layout.emplace_back(Axis::ep, shard_on(0));
        for (std::size_t d = 1; d < shape.size(); ++d)
          if (s.etp > 1 && shape[d].tag == DimTag::expert_ffn)
            layout.emplace_back(Axis::etp, shard_on(static_cast<int>(d)));
      }
    }
    // From stage 2 on gradients are slices of their ranks' copies, be it a single one.
    if (s.zero_stage >= 1 && (copies_of(s) > 1 || (s.zero_stage >= 2 && s.dp * s.cp > 1)))
      plan.expert_optimizer.emplace_back(Axis::edp, shard_flat());
  }

 private:
  static Layout rows_layout(const Shape& shape, const StrategySettings& s, const Layout& otherwise) {
    if (shape.empty() || shape.front().tag != DimTag::routed) return otherwise;
    const bool inner = shape.size() > 1 && shape[1].tag == DimTag::expert_ffn;
    Layout out = rows_at_expert(s);
    if (!inner || s.etp == 1) return out;
    for (auto& [axis, l] : out)
      if (axis == Axis::etp) l = shard_on(1);
    return out;
  }
};

[[maybe_unused]] const bool registered_expert_parallel =
    strategies().add({"expert_parallel",
                      "experts dealt to the ranks of a stage; tokens travel to them and back, gradients are reduced "
                      "over copies of the experts",
                      {{"ep", "ranks over which experts are dealt", "1"},
                       {"etp", "ranks that split every expert's inner size", "1"},
                       {"dispatch", "all_to_all, or hierarchical: one copy of a token per node", "all_to_all"},
                       {"dispatch_node", "ranks that one copy serves", "0"},
                       {"training.experts.capacity_factor", "rows an expert takes over the mean; 0 drops none", "0"},
                       {"training.experts.pad_to_capacity", "fill buffers up to the capacity", "false"},
                       {"training.experts.imbalance", "none, multinomial or zipf", "none"}},
                      std::make_shared<ExpertParallel>()});

[[maybe_unused]] const bool named_expert_parallel =
    name_strategy("expert_parallel", {{"--expert-model-parallel-size", "Megatron-LM", "strategy.ep=N"},
                                      {"--expert-tensor-parallel-size", "Megatron-LM", "strategy.etp=N"}});

/// Picks `values[coord(axis)]`, by halves: no table is needed, and equal neighbours cost nothing.
ExprId by_coordinate(ExprPool& e, Axis axis, const std::vector<std::int64_t>& values, std::size_t first,
                     std::size_t count) {
  if (std::all_of(values.begin() + static_cast<std::ptrdiff_t>(first),
                  values.begin() + static_cast<std::ptrdiff_t>(first + count),
                  [&](std::int64_t v) { return v == values[first]; }))
    return e.constant(values[first]);
  const std::size_t half = count / 2;
  const ExprId low = by_coordinate(e, axis, values, first, half),
               high = by_coordinate(e, axis, values, first + half, count - half);
  return e.apply(ExprOp::select,
                 e.apply(ExprOp::lt, e.coord(axis), e.constant(static_cast<std::int64_t>(first + half))), low, high);
}

std::string draw_name(const ExpertSettings& e) {
  if (e.imbalance == Imbalance::none) return "balanced";
  return e.imbalance == Imbalance::multinomial ? "multinomial" : fmt::format("zipf({:g})", e.zipf_exponent);
}

/// A tensor of counts, an instance per layer and microbatch.
int counts(ProgramFrame& frame, const char* name, std::int64_t length, Layout layout) {
  Tensor t;
  t.name = name;
  t.shape = {frame.constant(length)};
  t.dtype = DType::int64;
  t.layout = std::move(layout);
  t.lifetime = Lifetime::saved;
  t.per_layer = t.per_microbatch = true;
  return frame.add_tensor(std::move(t));
}

/// Dynamic dimensions of a plan whose sizes are counted, and the tensors that hold the counts.
void add_dynamic(ProgramFrame& frame, ExpertPlan& plan, const ExpertSettings& settings, ExprId expectation) {
  Program& p = frame.program;
  plan.rows_here = counts(frame, "experts.rows_here", 1, plan.at_source);
  const std::int64_t most = plan.capacity > 0 ? plan.capacity : plan.tokens;
  DynamicDim to;
  to.name = "rows to expert";
  to.length = frame.constant(plan.routing.experts);
  to.bound = frame.constant(most);
  to.expectation = frame.constant(plan.sent / plan.routing.experts);
  to.draw = draw_name(settings);
  to.source = plan.counts_to;
  to.draw_axes = {Axis::edp, Axis::ep, Axis::etp};
  to.allocate_true_size = true;
  DynamicDim from = to;
  plan.rows_to = static_cast<int>(p.dynamic_dims.size());
  from.name = "rows from peer";
  from.source = plan.counts_from;
  from.draw.clear();
  from.transpose_of = plan.rows_to;
  from.transpose_group = frame.group("ep", {Axis::ep});
  p.dynamic_dims.push_back(to);
  plan.rows_from = static_cast<int>(p.dynamic_dims.size());
  p.dynamic_dims.push_back(from);
  DynamicDim here = to;
  here.name = "rows here";
  here.length = ExprPool::kOne;
  const std::int64_t chosen = plan.capacity > 0 ? plan.experts_here() * plan.capacity
                                                : std::min(plan.routing.top_k, plan.experts_here()) * plan.tokens;
  here.bound = frame.constant(chosen * plan.ep * plan.etp);
  here.expectation = expectation;
  here.source = plan.rows_here;
  plan.arrived = p.exprs.dynamic(static_cast<int>(p.dynamic_dims.size()), expectation);
  p.dynamic_dims.push_back(here);
  if (plan.capacity == 0) return;
  DynamicDim sent = to;
  sent.name = "rows sent";
  sent.length = ExprPool::kOne;
  sent.bound = frame.constant(plan.tokens * plan.routing.top_k);
  sent.expectation = plan.sent_rows;
  sent.source = -1;
  plan.sent_rows = p.exprs.dynamic(static_cast<int>(p.dynamic_dims.size()), sent.expectation);
  p.dynamic_dims.push_back(sent);
}

}  // namespace

Layout rows_at_source(const StrategySettings& s) {
  Layout out;
  if (copies_of(s) > 1 || s.dp * s.cp > 1) out.emplace_back(Axis::edp, Ragged{0});
  out.emplace_back(Axis::ep, Ragged{0});
  if (s.etp > 1) out.emplace_back(Axis::etp, Ragged{0});
  return out;
}

Layout rows_at_expert(const StrategySettings& s) {
  Layout out = rows_at_source(s);
  for (auto& [axis, l] : out)
    if (axis == Axis::etp) l = shard_on(0);
  return out;
}

std::vector<AxisExtent> expert_order(const StrategySettings& s, const std::vector<AxisExtent>& dense) {
  int inner = 1;
  for (const AxisExtent& e : dense) {
    if (e.axis == Axis::pp) break;
    inner *= e.extent;
  }
  const auto place = [&](const char* name) { return std::find(s.placement.begin(), s.placement.end(), name); };
  std::vector<AxisExtent> axes{{Axis::etp, s.etp}, {Axis::ep, s.ep}, {Axis::edp, copies_of(s)}};
  if (place("dp") < place("ep") && place("ep") != s.placement.end()) std::swap(axes[1], axes[2]);
  std::vector<AxisExtent> out;
  int before = 1;
  for (const AxisExtent& axis : axes) {
    if (before == inner && std::none_of(out.begin(), out.end(), [](const AxisExtent& e) { return e.axis == Axis::pp; }))
      out.push_back({Axis::pp, s.pp});
    out.push_back(axis);
    before *= axis.extent;
  }
  if (std::any_of(out.begin(), out.end(), [](const AxisExtent& e) { return e.axis == Axis::pp; })) return out;
  if (before != inner)
    refuse_at("strategy.placement",
              fmt::format("{} neighbouring ranks of a stage are no whole blocks of etp({}), ep({}) and edp({})", inner,
                          s.etp, s.ep, copies_of(s)),
              "put pp last in strategy.placement");
  out.push_back({Axis::pp, s.pp});
  return out;
}

ExpertPlan plan_experts(ProgramFrame& frame, const Workload& workload, const StrategySettings& s) {
  ExpertPlan plan;
  const Routing* routing = workload.network.routing();
  if (routing == nullptr) return plan;
  const ExpertSettings& settings = workload.training.experts;
  plan.routing = *routing;
  plan.etp = s.etp;
  plan.ep = s.ep;
  plan.edp = copies_of(s);
  plan.node = ranks_per_copy(s, *routing);
  plan.at_source = rows_at_source(s);
  plan.at_expert = rows_at_expert(s);
  plan.tokens = std::int64_t{s.microbatch} * workload.training.sequence_length / (std::int64_t{s.tp} * s.cp);
  const double even = static_cast<double>(plan.tokens * routing->top_k) / static_cast<double>(routing->experts);
  if (settings.capacity_factor > 0)
    plan.capacity = static_cast<std::int64_t>(std::ceil(settings.capacity_factor * even));
  plan.padded = settings.pad_to_capacity;
  plan.counted = !plan.padded && (plan.ep > 1 || plan.capacity > 0);
  const std::vector<double> rows = rows_per_expert(*routing, plan.tokens, plan.capacity, settings);
  double kept = 0;
  for (const double r : rows) kept += r;
  plan.sent = plan.padded ? routing->experts * plan.capacity
                          : std::min<std::int64_t>(std::llround(kept), plan.tokens * routing->top_k);
  if (plan.node > 0)
    plan.copies = std::llround(static_cast<double>(plan.tokens) * nodes_visited(*routing, plan.ep / plan.node));
  plan.arrived = frame.constant(plan.sent * plan.etp);
  plan.sent_rows = frame.constant(plan.sent);
  if (!plan.padded) {
    plan.counts_to = counts(frame, "experts.rows_to", routing->experts, plan.at_source);
    plan.counts_from =
        plan.ep > 1 ? counts(frame, "experts.rows_from", routing->experts, plan.at_source) : plan.counts_to;
    plan.counts_all = plan.etp > 1 ? counts(frame, "experts.rows_all", routing->experts * plan.etp, plan.at_source)
                                   : plan.counts_from;
  }
  if (!plan.counted) return plan;
  const auto loads = rows_per_rank(*routing, rows, plan.sent * plan.etp * plan.ep, plan.ep, plan.etp,
                                   settings.imbalance, workload.training.seed);
  add_dynamic(frame, plan, settings, by_coordinate(frame.program.exprs, Axis::ep, loads, 0, loads.size()));
  return plan;
}

}  // namespace rehearse
