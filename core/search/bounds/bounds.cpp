#include "core/search/bounds/bounds.hpp"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/estimate/estimate.hpp"
#include "core/estimate/quick/pass_part.hpp"
#include "core/model/operator_count.hpp"
#include "core/play/metrics.hpp"
#include "core/price/host_copies.hpp"
#include "core/price/memory_rule.hpp"
#include "core/program/body.hpp"
#include "core/program/liveness_curve.hpp"
#include "core/schedule/schedule.hpp"
#include "core/search/bounds/least_memory.hpp"
#include "core/search/bounds/siblings.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

bool splits_backward(const StrategySettings& s) { return schedules().at(s.schedule).value->splits_backward(); }

/// One stage; backward in halves where `split`.
StrategySettings one_stage(const StrategySettings& settings, bool split) {
  StrategySettings out = alone(settings);
  out.pp = out.virtual_stages = 1;
  out.schedule = split ? "zb_h1" : "1f1b";
  return out;
}

Seconds sum(const Breakdown& b, std::initializer_list<TimeCategory> categories) {
  Seconds out;
  for (const TimeCategory c : categories) out += b[c];
  return out;
}

Bytes in(const RoleMemory& m, MemoryCategory c) { return nth(m.by_category, c); }

/// Exchanges of experts depend on which replicas take part, which are not those of the plan; what the host adds to
/// layers depends on their exchanges.
Seconds host_of(const Breakdown& b, const Network& net) {
  return net.routing() == nullptr ? b[TimeCategory::launch] : Seconds{0};
}
Seconds compute_of(const Breakdown& b, const Network& net) {
  using enum TimeCategory;
  return sum(b, {matmul, attention, memory_bound, loss, recompute}) + host_of(b, net);
}
Seconds kernels_of(const Breakdown& b) {
  using enum TimeCategory;
  return sum(b, {matmul, attention, memory_bound, loss, recompute});
}
Seconds exposed_of(const Breakdown& b) { return sum(b, {TimeCategory::exposed_tp, TimeCategory::exposed_cp}); }

int layers_of(const Network& net) {
  int out = 0;
  for (std::size_t b = 0; b < net.blocks.size(); ++b) out += net.blocks[b].is_layer() ? net.repeat[b] : 0;
  return out;
}

/// A network of one kind of layer is priced with few of them: what each further one takes and keeps is the same.
Workload few_layers(const Workload& workload) {
  static constexpr int kFew = 4;
  const Network& net = workload.network;
  const auto kinds = std::count_if(net.blocks.begin(), net.blocks.end(), [](const auto& b) { return b.is_layer(); });
  return kinds == 1 ? with_layers(workload, [](int n) { return std::min(n, kFew); }) : workload;
}

/// One microbatch of one stage: of the network with few layers, and of half as many of those, so that what stands
/// outside the layers cancels in the difference.
struct LoweredPass {
  StrategySettings settings;
  Workload workload;  ///< Of `whole`.
  Program whole;
  RoleMemory memory;
  int fewer = 0;  ///< Layers that `half` has less; 0: it has none less, and is not lowered.
  std::optional<Program> half;
  RoleMemory half_memory;
};

/// With the backward whole, or in halves.
LoweredPass lowered_pass(const SearchProblem& problem, const StrategySettings& settings, bool split) {
  const StrategySettings s = one_stage(settings, split);
  Workload one = few_layers(problem.workload);
  one.training.global_batch = s.microbatch * s.dp;
  const int ranks = s.dp * s.cp * s.tp * s.tile_h * s.tile_w;
  Program whole = lower(one, s, ranks);
  RoleMemory memory = MemoryRule{}.peaks(whole).front();
  LoweredPass out{s, std::move(one), std::move(whole), std::move(memory), 0, {}, {}};
  const Workload half = with_layers(out.workload, [](int n) { return n / 2; });
  out.fewer = layers_of(out.workload.network) - layers_of(half.network);
  if (out.fewer == 0) return out;
  out.half = lower(half, s, ranks);
  out.half_memory = MemoryRule{}.peaks(*out.half).front();
  return out;
}

/// What layers take and keep. Where fewer than `layers` were lowered, the rest is added to all of `out`.
void add_layers(const SearchProblem& problem, const LoweredPass& pass, int layers, PassCosts& out) {
  out.layers = layers;
  if (pass.fewer == 0) return;
  const Network& net = pass.workload.network;
  const int missing = layers - layers_of(net);
  const auto each = [&](MemoryCategory c) {
    return std::max(Bytes{0}, in(pass.memory, c) - in(pass.half_memory, c)) / pass.fewer;
  };
  out.saved = each(MemoryCategory::activations) * layers;
  out.weights += each(MemoryCategory::weights) * missing;
  out.gradients += each(MemoryCategory::gradients) * missing;
  out.optimizer += each(MemoryCategory::optimizer) * missing;
  const Breakdown parts = estimate(*pass.half, problem.cost, pass.settings, 1).breakdown;
  out.layer_compute = std::max(Seconds{0}, out.compute - compute_of(parts, net)) / pass.fewer;
  out.kernels += std::max(Seconds{0}, out.kernels - kernels_of(parts)) / pass.fewer * missing;
  if (net.routing() == nullptr) out.layer_exposed = std::max(Seconds{0}, out.exposed - exposed_of(parts)) / pass.fewer;
  out.compute += out.layer_compute * missing;
  out.launch += std::max(Seconds{0}, out.launch - host_of(parts, net)) / pass.fewer * missing;
  out.exposed += out.layer_exposed * missing;
}

/// What the first layer of the only stage keeps when its passes so far are forward and the input half of backward.
Bytes kept_between_halves(const Program& program, const Network& network) {
  int position = 0;
  for (std::size_t b = 0; !network.blocks[b].is_layer(); ++b) position += network.repeat[b];
  ExprContext at = program.mesh.context(0);
  at.tables = &program.tables;
  at.microbatches = program.microbatches;
  at.layer = position;
  std::vector<Bytes> kept{Bytes{0}};
  for (const Entry& e : program.roles.front().step) {
    const Body& body = nth(program.bodies, e.body);
    if (e.layer != position || part_of(body).kind != PassPart::Kind::pass) continue;
    Amounts left = body_curve(program, at, body, nth(program.binding_sets, e.bindings)).at_end;
    kept.push_back(kept.back() + Bytes{nth(left, MemoryCategory::activations)});
  }
  return kept.size() == 4 ? max(Bytes{0}, kept[2]) : Bytes{0};
}

/// On the devices that lie so far apart.
PassCosts costs_on(const SearchProblem& problem, const Strides& strides, bool split, LoweredPass& pass) {
  pass.whole.device_of_rank = devices_of(pass.settings, strides);
  if (pass.whole.device_of_rank.back() >= problem.cluster.device_count()) return {};
  if (pass.half) pass.half->device_of_rank = pass.whole.device_of_rank;
  const Network& net = pass.workload.network;
  const Breakdown parts = estimate(pass.whole, problem.cost, pass.settings, 1).breakdown;
  PassCosts out;
  out.compute = compute_of(parts, net);
  out.launch = host_of(parts, net);
  out.kernels = kernels_of(parts);
  if (net.routing() == nullptr) out.exposed = exposed_of(parts);
  out.weights = in(pass.memory, MemoryCategory::weights);
  out.gradients = in(pass.memory, MemoryCategory::gradients);
  out.optimizer = in(pass.memory, MemoryCategory::optimizer);
  add_layers(problem, pass, layers_of(problem.workload.network), out);
  if (split) out.halved = kept_between_halves(pass.whole, net) * out.layers;
  out.from_host = copy_rate(problem.cluster, HostPaths(problem.cluster), 0, true);
  out.experts = net.routing() != nullptr;
  out.known = true;
  return out;
}

/// Of each of `places`, whose passes are divided alike.
std::vector<PassCosts> costs_of(const SearchProblem& problem, std::span<const StrategySettings> places, bool split) {
  std::vector<PassCosts> out(places.size());
  try {
    LoweredPass pass = lowered_pass(problem, places.front(), split);
    for (std::size_t k = 0; k < places.size(); ++k) out[k] = costs_on(problem, strides_of(places[k]), split, pass);
  } catch (const Error&) {             // What is not known yet is not bounded,
  } catch (const std::logic_error&) {  // nor where there is a defect, which evaluate() counts.
  }
  return out;
}

/// Activations of layers that a stage holds at once.
Bytes most_alive(const PassCosts& costs, const StrategySettings& s, const Schedule& schedule,
                 const PipelineShape& shape) {
  const int chunks = s.pp * s.virtual_stages;
  if (!schedule.splits_backward())
    return costs.saved * (schedule.chunks_in_flight(0, shape) * kept_share(s, costs.layers) / chunks);
  const Bytes saved = costs.saved / costs.layers, halved = costs.halved / costs.layers;
  std::vector<KeptInChunk> each;
  // What was moved is back for the halves.
  for (const int layers : chunk_layers(chunks, costs.layers))
    each.push_back({saved * (layers - moved_layers(s, layers)), halved * layers});
  return most_kept(schedule, shape, each);
}

}  // namespace

std::vector<int> chunk_layers(int chunks, int layers) {
  std::vector<int> out;
  const auto first = [&](int c) { return (c * layers + chunks - 1) / chunks; };
  for (int c = 0; c < chunks; ++c) out.push_back(first(c + 1) - first(c));
  return out;
}

std::vector<int> stage_layers(const Schedule& schedule, const PipelineShape& shape, int layers) {
  std::vector<int> out(static_cast<std::size_t>(shape.stages), 0);
  const std::vector<int> chunks = chunk_layers(shape.stages * shape.virtual_stages, layers);
  for (std::size_t c = 0; c < chunks.size(); ++c) nth(out, schedule.stage_of(static_cast<int>(c), shape)) += chunks[c];
  return out;
}

bool moves_activations(const StrategySettings& s) {
  return s.offload == Offload::activations || s.offload == Offload::all;
}

PassKey pass_key(const StrategySettings& s) {
  const Strides at = strides_of(s);
  return {{{s.tp, s.cp, s.ep, s.etp, s.tile_h, s.tile_w, s.microbatch, s.sequence_parallel,
            static_cast<std::int64_t>(s.recompute), static_cast<std::int64_t>(s.context), splits_backward(s)},
           s.declared},
          {at.tp, at.cp, at.dp}};
}

std::vector<PassCosts> pass_costs(const SearchProblem& problem, std::span<const StrategySettings> places) {
  if (problem.workload.network.uneven() || problem.workload.input.sample > Bytes{0} ||
      problem.cluster.parts().size() > 1)
    return std::vector<PassCosts>(places.size());
  std::vector<PassCosts> whole = costs_of(problem, places, false);
  // Casts of weights to fewer bits come once a step, and are among a single microbatch's kernels.
  if (size_of(arithmetic_of(problem.workload.training.precision)) < 2)
    for (PassCosts& c : whole) c.kernels = {};
  if (!splits_backward(places.front()) || !whole.front().known) return whole;
  std::vector<PassCosts> out = costs_of(problem, places, true);
  for (std::size_t k = 0; k < places.size(); ++k) {
    if (!whole[k].known) {
      out[k] = whole[k];
      continue;
    }
    out[k].saved = whole[k].saved;
    out[k].kernels = min(out[k].kernels, whole[k].kernels);
    out[k].outside_layers = 1 / share_of_layers(problem.workload.network, 1) - 1;
  }
  return out;
}

PassCosts pass_costs(const SearchProblem& problem, const StrategySettings& settings) {
  return pass_costs(problem, {&settings, 1}).front();
}

Bound bound(const PassCosts& costs, const StrategySettings& s, std::int64_t global_batch) {
  if (!costs.known) return {};
  const int m = static_cast<int>(global_batch / (s.microbatch * s.dp));
  const PipelineShape shape{s.pp, s.virtual_stages, m};
  const Schedule& schedule = *schedules().at(s.schedule).value;
  const double stages = s.pp;
  // Where any stage may hold most, its state is that of layers alone.
  const int chunks = s.pp * s.virtual_stages;
  const std::vector<int> held_layers = stage_layers(schedule, shape, costs.layers);
  const double layers_alone =
      *std::min_element(held_layers.begin(), held_layers.end()) / (costs.layers * (1 + costs.outside_layers));
  const double share = schedule.copies() * (schedule.splits_backward() ? layers_alone : 1 / stages);
  const StageState stage{costs.weights * share, costs.gradients * share, costs.optimizer * share,
                         most_alive(costs, s, schedule, shape), costs.experts};
  const double bubble = s.pp > 1 ? schedule.bubble_ratio(shape) : 0;
  const double waits = schedule.pairs() ? kPairedMargin : kExposedMargin;
  const Seconds compute = schedule.pairs() ? costs.compute - costs.launch : costs.compute;
  const Seconds mean = (compute * kBoundMargin + costs.exposed * waits) / stages;
  const int most = schedule.copies() > 1 || s.pp * s.virtual_stages > costs.layers
                       ? 0
                       : *std::max_element(held_layers.begin(), held_layers.end());
  const Seconds fullest = (costs.layer_compute * kBoundMargin + costs.layer_exposed * waits) * most;
  Seconds copies;
  const int chunk = costs.layers / chunks;
  // What the weight half of a backward reads stays on the device.
  if (chunk > 0)
    copies = max(Bytes{0}, costs.saved - costs.halved) * (kBoundMargin * moved_layers(s, chunk) / (stages * chunk)) /
             costs.from_host;
  return {max(max(mean * (1 + bubble), fullest), copies) * m,
          least_memory(s, stage, s.fsdp.enabled ? least_whole_beside(schedule, shape, 0) : WholeBeside{}),
          proven_step(costs, s, global_batch)};
}

Seconds step_at_peak(const SearchProblem& problem) {
  const Network& network = problem.workload.network;
  const TrainingSettings& t = problem.workload.training;
  for (const BlockSpec& block : network.blocks)
    for (const OpSpec& op : block.ops)
      if (op.kind == OpKind::convolution) return {};
  std::vector<FlopsPerSecond> peaks;
  for (int d = 0; d < problem.cluster.device_count(); ++d)
    peaks.push_back(problem.cluster.gpu(d).peak(arithmetic_of(t.precision)));
  std::sort(peaks.begin(), peaks.end(), std::greater<>());
  peaks.resize(std::min(peaks.size(), static_cast<std::size_t>(problem.devices)));
  const FlopsPerSecond all = std::accumulate(peaks.begin(), peaks.end(), FlopsPerSecond{});
  return all > FlopsPerSecond{} ? causal_model_flops(network, t.global_batch, t.sequence_length) / all : Seconds{};
}

Seconds proven_step(const PassCosts& costs, const StrategySettings& s, std::int64_t global_batch) {
  if (!costs.known) return {};
  return costs.kernels * (static_cast<double>(global_batch) / (static_cast<double>(s.microbatch) * s.dp * s.pp));
}

}  // namespace rehearse
