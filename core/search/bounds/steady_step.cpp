#include "core/search/bounds/steady_step.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/estimate/walk/walk.hpp"
#include "core/program/body.hpp"
#include "core/search/bounds/least_memory.hpp"
#include "core/search/bounds/plan_traffic.hpp"
#include "core/search/bounds/siblings.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

constexpr int kStages = 2, kFewMicrobatches = 4, kMoreMicrobatches = 8;

Seconds busy(const Breakdown& b) {
  Seconds out;
  using enum TimeCategory;
  for (const TimeCategory c :
       {matmul, attention, memory_bound, loss, recompute, launch, overlap_slowdown, exposed_tp, exposed_cp})
    out += b[c];
  return out;
}

/// By role.
std::map<int, Seconds> busy_stages(const SearchProblem& problem, const StrategySettings& sibling,
                                   const std::vector<int>& devices, int layers, int microbatches) {
  Workload workload = with_layers(problem.workload, [layers](int) { return layers; });
  workload.training.global_batch = sibling.microbatch * sibling.dp * microbatches;
  Program program = lower(workload, sibling, static_cast<int>(devices.size()));
  program.device_of_rank = devices;
  std::map<int, Seconds> out;
  for (const WalkedKind& kind : walk(program, problem.cost, 1).kinds)
    out[kind.role] = max(out[kind.role], busy(kind.breakdown));
  return out;
}

/// What a microbatch takes on each stage, in the mean, of what so many layers of a chunk take: where chunks have
/// copies, each has its share of the microbatches.
template <class Layers>
std::vector<Seconds> stage_times(const Schedule& schedule, const PipelineShape& shape, int layers, Seconds each,
                                 const Layers& of_chunk) {
  std::vector<Seconds> out(static_cast<std::size_t>(shape.stages));
  const std::vector<int> chunks = chunk_layers(shape.stages * shape.virtual_stages, layers);
  for (std::size_t c = 0; c < chunks.size(); ++c)
    for (int copy = 0; copy < schedule.copies(); ++copy)
      nth(out, schedule.stage_of(static_cast<int>(c), shape, copy)) +=
          each * (static_cast<double>(of_chunk(chunks[c])) / schedule.copies());
  return out;
}

/// That a layer's activations are, on their way to the host.
Bytes moved_bytes(const SearchProblem& problem, StrategySettings sibling, const std::vector<int>& devices) {
  sibling.offload = Offload::activations;
  const int chunks = sibling.pp * sibling.virtual_stages;
  Workload workload = with_layers(problem.workload, [chunks](int) { return 2 * chunks; });
  workload.training.global_batch = sibling.microbatch * sibling.dp * kFewMicrobatches;
  const Program program = lower(workload, sibling, static_cast<int>(devices.size()));
  const ExprContext at = program.mesh.context(0);
  std::vector<Bytes> each;
  const auto leaves = [&](const Task& task) { return program.role_of(task.stream) == StreamRole::copy_out; };
  for (const Body& body : program.bodies) {
    if (body.graph.size() == 0 || !leaves(body.graph[0])) continue;
    each.emplace_back();
    for (const auto v : body.graph.vertices())
      for (const Operand& o : body.graph[v].operands)
        if (o.access == Access::read)
          each.back() += Bytes{program.local_bytes(nth(program.tensors, nth(body.formals, o.formal).like), at)};
  }
  return each.empty() ? Bytes{} : *std::min_element(each.begin(), each.end());
}

}  // namespace

bool has_steady_step(const SearchProblem& problem, const StrategySettings& s) {
  const Network& net = problem.workload.network;
  const auto kinds = std::count_if(net.blocks.begin(), net.blocks.end(), [](const auto& b) { return b.is_layer(); });
  const Schedule& schedule = *schedules().at(s.schedule).value;
  return s.pp > 1 && (schedule.splits_backward() || schedule.pairs()) && kinds == 1 && !net.uneven() &&
         net.routing() == nullptr && problem.workload.input.sample == Bytes{0} && problem.cluster.parts().size() == 1;
}

SteadyKey steady_key(const StrategySettings& s) { return {pass_key(s), s.schedule, moves_activations(s)}; }

SteadyStep steady_step(const SearchProblem& problem, const StrategySettings& settings) {
  if (!has_steady_step(problem, settings)) return {};
  try {
    StrategySettings s = alone(settings);
    s.pp = kStages;
    const std::vector<int> devices = devices_of(s, strides_of(settings));
    if (*std::max_element(devices.begin(), devices.end()) >= problem.cluster.device_count()) return {};
    const auto each = [&](int layers) {
      std::map<int, Seconds> out = busy_stages(problem, s, devices, layers, kMoreMicrobatches);
      for (const auto& [role, before] : busy_stages(problem, s, devices, layers, kFewMicrobatches))
        out[role] = (out[role] - before) / (kMoreMicrobatches - kFewMicrobatches);
      return out;
    };
    const int chunks = s.pp * s.virtual_stages;
    const std::map<int, Seconds> few = each(chunks), more = each(2 * chunks);
    SteadyStep out{true, {}, {}, problem.workload.network.layers(), {}};
    if (moves_activations(settings)) out.moved = moved_bytes(problem, s, devices);
    for (const auto& [role, time] : more) {
      const Seconds layer = (time - few.at(role)) / s.virtual_stages;
      out.layer = out.layer > Seconds{0} ? min(out.layer, layer) : layer;
    }
    for (const auto& [role, time] : few) out.ends = max(out.ends, time - out.layer * s.virtual_stages);
    return out;
  } catch (const Error&) {
    return {};
  } catch (const std::logic_error&) {  // A defect, which evaluate() counts: nothing is bounded.
    return {};
  }
}

Seconds least_step(const SteadyStep& steady, const HostTimes& host, const StrategySettings& s,
                   std::int64_t global_batch) {
  if (!steady.known) return {};
  const Schedule& schedule = *schedules().at(s.schedule).value;
  const int microbatches = static_cast<int>(global_batch / (s.microbatch * s.dp));
  const PipelineShape shape{s.pp, s.virtual_stages, microbatches};
  Seconds each = steady.layer * (static_cast<double>(steady.layers) / s.pp * (1 + schedule.bubble_ratio(shape)));
  const std::vector<Seconds> stages =
      stage_times(schedule, shape, steady.layers, steady.layer, [](int layers) { return layers; });
  for (const Seconds time : stages) each = max(each, time);
  each = max(each, nth(stages, schedule.stage_of(s.pp * s.virtual_stages - 1, shape)) + steady.ends);
  Seconds copies;
  for (const Seconds time :
       stage_times(schedule, shape, steady.layers, host.copy, [&s](int layers) { return moved_layers(s, layers); }))
    copies = max(copies, time);
  return max(each * microbatches + exposed_update(host.update, each, s.pp, microbatches), copies * microbatches) *
         kSteadyMargin;
}

}  // namespace rehearse
