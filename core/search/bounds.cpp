#include "core/search/bounds.hpp"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <vector>

#include "core/cost/estimate.hpp"
#include "core/cost/host_copies.hpp"
#include "core/cost/memory_rule.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/state_shards.hpp"

namespace rehearse {

namespace {

/// One stage, one replica or as many as experts need, nothing sharded or moved.
StrategySettings alone(StrategySettings s) {
  s.pp = s.virtual_stages = 1;
  s.schedule = "1f1b";
  s.uneven_layers = s.scatter_gather = false;
  s.zero_stage = 0;
  s.fsdp.enabled = s.overlap.param_gather = false;
  s.offload = Offload::none;
  s.balance = Balance::none;
  s.dp = 1;
  while (s.dp * s.cp * s.tp % (s.ep * s.etp) != 0) ++s.dp;
  s.dp_shard = 1;
  s.dp_replicate = s.dp;
  s.placement = {"tp", "cp", "ep", "dp", "pp", "tile_h", "tile_w"};
  return s;
}

Seconds sum(const Breakdown& b, std::initializer_list<TimeCategory> categories) {
  Seconds out;
  for (const TimeCategory c : categories) out += b[c];
  return out;
}

/// Distance on the devices between neighbours along each axis: what is before it in the plan's order. 0 where there are no neighbours.
struct Strides {
  std::int64_t tp = 0, cp = 0, dp = 0;
};
Strides strides_of(const StrategySettings& s) {
  Strides out;
  std::int64_t before = 1;
  for (const std::string& axis : s.placement) {
    if (axis == "tp" && s.tp > 1) out.tp = before;
    if (axis == "cp" && s.cp > 1) out.cp = before;
    if (axis == "dp" && s.ep * s.etp > 1) out.dp = before;
    before *= axis == "tp" ? s.tp : axis == "cp" ? s.cp : axis == "dp" ? s.dp : axis == "pp" ? s.pp : 1;
  }
  return out;
}

/// The devices on which a plan has those of its ranks that `alone` keeps.
std::vector<int> devices_of(const StrategySettings& alone, const Strides& strides, int ranks) {
  std::vector<int> out;
  for (int r = 0; r < ranks; ++r) out.push_back(static_cast<int>(r % alone.tp * strides.tp + r / alone.tp % alone.cp * strides.cp + r / alone.tp / alone.cp * strides.dp));
  return out;
}

Bytes in(const RoleMemory& m, MemoryCategory c) { return m.by_category[static_cast<std::size_t>(c)]; }

Seconds compute_of(const Breakdown& b) {
  using enum TimeCategory;
  return sum(b, {matmul, attention, memory_bound, loss, recompute, launch});
}
Seconds exposed_of(const Breakdown& b) { return sum(b, {TimeCategory::exposed_tp, TimeCategory::exposed_cp}); }

int layers_of(const Network& net) {
  int out = 0;
  for (std::size_t b = 0; b < net.blocks.size(); ++b) out += net.blocks[b].is_layer() ? net.repeat[b] : 0;
  return out;
}

Workload with_layers(Workload w, const std::function<int(int)>& change) {
  for (std::size_t b = 0; b < w.network.blocks.size(); ++b)
    if (w.network.blocks[b].is_layer()) w.network.repeat[b] = std::max(1, change(w.network.repeat[b]));
  return w;
}

/// A network of one kind of layer is priced with few of them: what each further one takes and keeps is the same.
Workload few_layers(const Workload& workload) {
  static constexpr int kFew = 4;
  const Network& net = workload.network;
  const auto kinds = std::count_if(net.blocks.begin(), net.blocks.end(), [](const auto& b) { return b.is_layer(); });
  return kinds == 1 ? with_layers(workload, [](int n) { return std::min(n, kFew); }) : workload;
}

/// What layers take and keep, as the difference to a network of half of them: what stands outside the layers cancels. `workload` is that of `whole`; where
/// it has fewer than `layers`, the rest is added to all of `out`.
void add_layers(const SearchProblem& problem, const Workload& workload, int layers, const StrategySettings& settings, const Program& whole, const RoleMemory& memory, PassCosts& out) {
  const Workload half = with_layers(workload, [](int n) { return n / 2; });
  const int priced = layers_of(workload.network), fewer = priced - layers_of(half.network), missing = layers - priced;
  out.layers = layers;
  if (fewer == 0) return;
  Program program = lower(half, settings, static_cast<int>(whole.device_of_rank.size()));
  program.device_of_rank = whole.device_of_rank;
  const RoleMemory less = MemoryRule{}.peaks(program).front();
  const auto each = [&](MemoryCategory c) { return std::max(Bytes{0}, in(memory, c) - in(less, c)) / fewer; };
  out.saved = each(MemoryCategory::activations) * layers;
  out.weights += each(MemoryCategory::weights) * missing;
  out.gradients += each(MemoryCategory::gradients) * missing;
  out.optimizer += each(MemoryCategory::optimizer) * missing;
  const Breakdown parts = estimate(program, problem.cost, settings, 1).breakdown;
  out.layer_compute = std::max(Seconds{0}, out.compute - compute_of(parts)) / fewer;
  if (workload.network.routing() == nullptr) out.layer_exposed = std::max(Seconds{0}, out.exposed - exposed_of(parts)) / fewer;
  out.compute += out.layer_compute * missing;
  out.launch += std::max(Seconds{0}, out.launch - parts[TimeCategory::launch]) / fewer * missing;
  out.exposed += out.layer_exposed * missing;
}

/// Of a chunk's layers, those whose activations are moved (strategy/activation_offload.hpp).
double moved_share(const StrategySettings& s, int layers) {
  const int chunk = layers / (s.pp * s.virtual_stages), most = std::max(0, chunk - 1);
  return chunk == 0 ? 0 : static_cast<double>(s.offload_layers > 0 ? std::min(s.offload_layers, most) : most) / chunk;
}

}  // namespace

std::vector<int> stage_layers(const Schedule& schedule, const PipelineShape& shape, int layers) {
  const int chunks = shape.stages * shape.virtual_stages;
  std::vector<int> out(static_cast<std::size_t>(shape.stages), 0);
  const auto first = [&](int c) { return (c * layers + chunks - 1) / chunks; };
  for (int c = 0; c < chunks; ++c) out[static_cast<std::size_t>(schedule.stage_of(c, shape))] += first(c + 1) - first(c);
  return out;
}

bool moves_activations(const StrategySettings& s) { return s.offload == Offload::activations || s.offload == Offload::all; }

PassKey pass_key(const StrategySettings& s) {
  const Strides at = strides_of(s);
  return {s.tp, s.cp, s.ep, s.etp, s.tile_h, s.tile_w, s.microbatch, s.sequence_parallel, static_cast<std::int64_t>(s.recompute), static_cast<std::int64_t>(s.context), at.tp, at.cp, at.dp};
}

PassCosts pass_costs(const SearchProblem& problem, const StrategySettings& settings) {
  PassCosts out;
  if (problem.workload.network.uneven() || problem.workload.input.sample > Bytes{0} || problem.cluster.parts().size() > 1) return out;
  try {
    const StrategySettings s = alone(settings);
    Workload one = few_layers(problem.workload);
    one.training.global_batch = s.microbatch * s.dp;
    const int ranks = s.dp * s.cp * s.tp * s.tile_h * s.tile_w;
    Program program = lower(one, s, ranks);
    program.device_of_rank = devices_of(s, strides_of(settings), ranks);
    if (program.device_of_rank.back() >= problem.cluster.device_count()) return out;
    const RoleMemory memory = MemoryRule{}.peaks(program).front();
    const Breakdown parts = estimate(program, problem.cost, s, 1).breakdown;
    out.compute = compute_of(parts);
    out.launch = parts[TimeCategory::launch];
    // Exchanges of experts depend on which replicas take part, which are not those of the plan.
    if (one.network.routing() == nullptr) out.exposed = exposed_of(parts);
    out.weights = in(memory, MemoryCategory::weights);
    out.gradients = in(memory, MemoryCategory::gradients);
    out.optimizer = in(memory, MemoryCategory::optimizer);
    add_layers(problem, one, layers_of(problem.workload.network), s, program, memory, out);
    out.from_host = copy_rate(problem.cluster, HostPaths(problem.cluster), 0, true);
    out.known = true;
  } catch (const Error&) {
    out = {};
  }
  return out;
}

Bound bound(const PassCosts& costs, const StrategySettings& s, std::int64_t global_batch) {
  if (!costs.known) return {};
  const MemoryRule rule;
  const int m = static_cast<int>(global_batch / (s.microbatch * s.dp));
  const PipelineShape shape{s.pp, s.virtual_stages, m};
  const Schedule& schedule = *schedules().at(s.schedule).value;
  const double stages = s.pp;
  Bytes held = state_on_device(s, costs.weights, costs.gradients, costs.optimizer) * (schedule.copies() / stages);
  if (s.offload == Offload::none || s.offload == Offload::optimizer) held += costs.saved * (schedule.chunks_in_flight(0, shape) / (stages * s.virtual_stages));
  const double bubble = s.pp > 1 ? schedule.bubble_ratio(shape) : 0;
  const double waits = schedule.pairs() ? kPairedMargin : kExposedMargin;
  const Seconds compute = schedule.pairs() ? costs.compute - costs.launch : costs.compute;
  const Seconds mean = (compute * kBoundMargin + costs.exposed * waits) / stages;
  const std::vector<int> held_layers = stage_layers(schedule, shape, costs.layers);
  const int most = schedule.copies() > 1 || s.pp * s.virtual_stages > costs.layers ? 0 : *std::max_element(held_layers.begin(), held_layers.end());
  const Seconds fullest = (costs.layer_compute * kBoundMargin + costs.layer_exposed * waits) * most;
  Seconds copies;
  if (moves_activations(s)) copies = costs.saved * (kBoundMargin * moved_share(s, costs.layers) / stages) / costs.from_host;
  return {max(max(mean * (1 + bubble), fullest), copies) * m, held * (kBoundMargin * rule.allocator_factor) + rule.framework};
}

}  // namespace rehearse
