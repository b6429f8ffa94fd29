#include "core/estimate/balance.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/program/body.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/shares.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

std::vector<std::int64_t> balanced_layers(const std::vector<std::vector<Seconds>>& time,
                                          const std::vector<Seconds>& fixed) {
  const std::size_t stages = time.size(), layers = time.at(0).size();
  if (layers < stages) throw std::invalid_argument("fewer layers than stages");
  constexpr double kNever = std::numeric_limits<double>::infinity();
  // best[s][l]: slowest of stages 0..s-1 with the first l layers; from[s][l]: where the last of them begins.
  std::vector<std::vector<double>> best(stages + 1, std::vector<double>(layers + 1, kNever));
  std::vector<std::vector<std::size_t>> from(stages + 1, std::vector<std::size_t>(layers + 1, 0));
  best[0][0] = 0;
  for (std::size_t s = 1; s <= stages; ++s) {
    for (std::size_t l = s; l <= layers; ++l) {
      double mine = fixed.at(s - 1).value();
      for (std::size_t k = l; k-- > s - 1;) {
        mine += time[s - 1].at(k).value();
        if (const double slowest = std::max(best[s - 1][k], mine); slowest < best[s][l]) {
          best[s][l] = slowest;
          from[s][l] = k;
        }
      }
    }
  }
  std::vector<std::int64_t> out(stages, 0);
  for (std::size_t s = stages, l = layers; s > 0; --s) {
    out[s - 1] = static_cast<std::int64_t>(l - from[s][l]);
    l = from[s][l];
  }
  return out;
}

std::vector<std::int64_t> balanced_microbatches(const std::vector<Seconds>& time, std::int64_t total) {
  if (total < static_cast<std::int64_t>(time.size())) throw std::invalid_argument("fewer microbatches than replicas");
  std::vector<std::int64_t> out(time.size(), 1);
  for (std::int64_t left = total - static_cast<std::int64_t>(time.size()); left > 0; --left) {
    std::size_t first = 0;
    const auto done = [&](std::size_t r) { return static_cast<double>(out[r] + 1) * time[r].value(); };
    for (std::size_t r = 1; r < time.size(); ++r)
      if (done(r) < done(first)) first = r;
    ++out[first];
  }
  return out;
}

namespace {

/// What a Program's blocks take on the ranks of a mixed cluster: the slowest rank of each stage of each replica.
class BlockTimes {
 public:
  BlockTimes(const Program& program, const CostModel& cost, const StrategySettings& settings)
      : p_(program), cost_(cost), settings_(settings) {
    for (int r = 0; r < p_.mesh.ranks(); ++r) {
      const ExprContext at = p_.mesh.context(r);
      std::map<std::string, int>& kinds = ranks_[{replica_of(at, settings_), nth(at.coord, Axis::pp)}];
      kinds.emplace(cost_.cluster().gpu(nth(p_.device_of_rank, r)).id, r);
    }
    for (const Role& role : p_.roles) {
      for (const Entry& e : role.step) {
        const Body& body = nth(p_.bodies, e.body);
        const bool pass = body.phase == Phase::forward || body.phase == Phase::recompute ||
                          body.phase == Phase::input_grad || body.phase == Phase::weight_grad;
        if (pass) calls_[e.layer].emplace(e.body, &e);
      }
    }
  }

  /// All passes of one microbatch through the block at `position`, on `stage` of `replica`.
  [[nodiscard]] Seconds at(int replica, int stage, int position) {
    Seconds slowest;
    for (const auto& [gpu, rank] : ranks_.at({replica, stage})) slowest = max(slowest, on(gpu, rank, position));
    return slowest;
  }
  /// Its devices, by stage or by replica; more than one set of them means that shares may differ.
  [[nodiscard]] bool stages_differ() const {
    return differ([](const std::pair<int, int>& at) { return at.second; });
  }
  [[nodiscard]] bool replicas_differ() const {
    return differ([](const std::pair<int, int>& at) { return at.first; });
  }

 private:
  Seconds on(const std::string& gpu, int rank, int position) {
    Seconds sum;
    const auto found = calls_.find(position);
    if (found == calls_.end()) return sum;
    for (const auto& [body, entry] : found->second) {
      const auto [at, fresh] = known_.try_emplace({gpu, body});
      if (fresh) {
        ExprContext context = p_.mesh.context(rank);
        context.tables = &p_.tables;
        context.microbatches = p_.microbatches;
        context.layer = entry->layer;
        context.chunk = entry->chunk;
        at->second = cost_.price_body(p_, nth(p_.bodies, body), rank, context).duration;
      }
      sum += at->second;
    }
    return sum;
  }

  template <class Part>
  [[nodiscard]] bool differ(Part part) const {
    std::map<int, std::set<std::string>> kinds;
    for (const auto& [at, ranks] : ranks_)
      for (const auto& [gpu, rank] : ranks) kinds[part(at)].insert(gpu);
    return std::any_of(kinds.begin(), kinds.end(), [&](const auto& k) { return k.second != kinds.begin()->second; });
  }

  const Program& p_;
  const CostModel& cost_;
  const StrategySettings& settings_;
  /// By replica and stage: a rank of each kind of GPU.
  std::map<std::pair<int, int>, std::map<std::string, int>> ranks_;
  /// By position: one call of each body of a pass.
  std::map<int, std::map<int, const Entry*>> calls_;
  std::map<std::pair<std::string, int>, Seconds> known_;  ///< By kind of GPU and body.
};

Program lowered(const Workload& workload, const StrategySettings& settings, const CostModel& cost,
                std::span<const DeviceId> devices) {
  Program program =
      lower(workload, settings, devices.empty() ? cost.cluster().device_count() : static_cast<int>(devices.size()));
  if (!devices.empty()) program.device_of_rank.assign(devices.begin(), devices.end());
  return program;
}

std::vector<std::int64_t> choose_layers(const Program& program, const StrategySettings& s, int replicas,
                                        BlockTimes& times, const Network& network) {
  if (s.virtual_stages > 1 || schedules().at(s.schedule).value->copies() > 1)
    throw Error(ErrorKind::usage,
                fmt::format("balance of layers wants one chunk per stage: schedule {} gives each several", s.schedule),
                "strategy.balance", "set strategy.schedule to 1f1b or zb_h1, or give strategy.layers_per_stage");
  int before = 0;
  for (std::size_t b = 0; b < network.blocks.size() && !network.uneven() && !network.blocks[b].is_layer(); ++b)
    before += network.repeat[b];
  const int layers = network.layers(), positions = program.chunks.back().last_layer;
  const auto slowest = [&](int stage, int position) {
    Seconds t;
    for (int r = 0; r < replicas; ++r) t = max(t, times.at(r, stage, position));
    return t;
  };
  std::vector<std::vector<Seconds>> time(static_cast<std::size_t>(s.pp));
  std::vector<Seconds> fixed(static_cast<std::size_t>(s.pp));
  for (int stage = 0; stage < s.pp; ++stage)
    for (int l = 0; l < layers; ++l) nth(time, stage).push_back(slowest(stage, before + l));
  for (int position = 0; position < before; ++position) fixed.front() += slowest(0, position);
  for (int position = before + layers; position < positions; ++position) fixed.back() += slowest(s.pp - 1, position);
  return balanced_layers(time, fixed);
}

std::vector<std::int64_t> choose_batch(const Program& program, const StrategySettings& s, int replicas,
                                       BlockTimes& times) {
  std::vector<Seconds> per_microbatch;
  for (int r = 0; r < replicas; ++r) {
    std::map<int, Seconds> stages;
    for (const ChunkPlacement& c : program.chunks)
      for (int position = c.first_layer; position < c.last_layer && c.copy == 0; ++position)
        stages[c.stage] += times.at(r, c.stage, position);
    Seconds slowest;
    for (const auto& [stage, t] : stages) slowest = max(slowest, t);
    per_microbatch.push_back(slowest);
  }
  std::vector<std::int64_t> out = balanced_microbatches(per_microbatch, std::int64_t{program.microbatches} * replicas);
  for (std::int64_t& share : out) share *= s.microbatch;
  return out;
}

}  // namespace

StrategySettings balanced(const Workload& workload, const StrategySettings& settings, const CostModel& cost,
                          std::span<const DeviceId> devices) {
  const Balance wanted = settings.balance;
  StrategySettings out = settings;
  if (wanted == Balance::none) return out;
  if (out.layers_per_stage.empty()) out.uneven_layers = true;
  const bool may_layers = out.layers_per_stage.empty() &&
                          (wanted == Balance::layers || (wanted == Balance::automatic && out.virtual_stages == 1)) &&
                          out.pp > 1;
  const bool may_batch = out.batch_per_replica.empty() && wanted != Balance::layers && out.dp > 1;
  Program program = lowered(workload, out, cost, devices);
  // lower() completes dp; the mesh says how.
  const Island& island = program.mesh.islands().front();
  out.dp_shard = island.extent(Axis::dp_shard);
  out.dp_replicate = island.extent(Axis::dp_replicate);
  const int replicas = out.dp_shard * out.dp_replicate;
  BlockTimes times(program, cost, out);
  if (may_layers && (wanted == Balance::layers || times.stages_differ())) {
    out.layers_per_stage = choose_layers(program, out, replicas, times, workload.network);
    program = lowered(workload, out, cost, devices);
  }
  if (may_batch && (wanted == Balance::batch || times.replicas_differ())) {
    BlockTimes again(program, cost, out);
    out.batch_per_replica = choose_batch(program, out, replicas, again);
  }
  out.uneven_layers = settings.uneven_layers;
  return out;
}

}  // namespace rehearse
