#include "core/search/moves.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "core/config/settings/strategy.hpp"

namespace rehearse {

namespace {

/// Axes among which devices are shared out; experts' axes lie inside them.
std::array<int, 6> shared_out(const Space::Mesh& m) { return {m.dp, m.tp, m.pp, m.cp, m.tile_h, m.tile_w}; }

/// Whether one axis gives what another takes, or one of the experts' axes differs.
bool next_to(const Space::Mesh& a, const Space::Mesh& b) {
  const auto x = shared_out(a), y = shared_out(b);
  int apart = 0;
  for (std::size_t i = 0; i < x.size(); ++i) apart += x[i] != y[i];
  if (apart == 0) return (a.ep != b.ep) != (a.etp != b.etp);
  // Experts' tensor parallelism is all of it or none.
  return apart == 2 && a.ep == b.ep && (a.etp > 1) == (b.etp > 1);
}

/// Whether a GPU holds less of each microbatch on `a` than on `b`.
bool divides_more(const Space::Mesh& a, const Space::Mesh& b) {
  const auto parts = [](const Space::Mesh& m) { return m.tp * m.cp * m.tile_h * m.tile_w; };
  return parts(a) > parts(b);
}

double apart(double a, double b) { return std::abs(std::log(a / b)); }

void add(std::vector<Space::Plan>& out, std::set<std::uint64_t>& seen, const Space::Plan& plan) {
  if (seen.insert(plan_number(plan)).second) out.push_back(plan);
}

}  // namespace

std::vector<std::uint32_t> Moves::meshes_around(std::uint32_t mesh) const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t m = 0; m < space_.meshes().size(); ++m)
    if (m != mesh && next_to(space_.meshes()[mesh], space_.meshes()[m])) out.push_back(m);
  return out;
}

/// The same schedule where it runs there, with the nearest number of chunks and then the nearest microbatch.
std::optional<std::uint16_t> Moves::pipeline(std::uint32_t mesh, const Space::Pipeline& like) const {
  const std::vector<Space::Pipeline>& all = space_.lists(mesh).pipelines;
  std::optional<std::uint16_t> best;
  std::tuple<bool, double, double> least;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::tuple<bool, double, double> far{all[i].schedule != like.schedule, apart(all[i].chunks, like.chunks),
                                               apart(all[i].microbatch, like.microbatch)};
    if (best && far >= least) continue;
    best = static_cast<std::uint16_t>(i);
    least = far;
  }
  return best;
}

/// The same stage of ZeRO or FSDP; of FSDP the same share of the replicas, or all of them where it was all.
std::uint8_t Moves::sharding(std::uint32_t mesh, const Space::Sharding& like, int dp) const {
  const std::vector<Space::Sharding>& all = space_.lists(mesh).shardings;
  const int here = space_.meshes()[mesh].dp;
  const double shard = like.dp_shard == dp ? here : like.dp_shard;
  std::uint8_t best = 0;
  std::tuple<bool, int, double, bool> least{true, 99, 0, true};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::tuple<bool, int, double, bool> far{all[i].fsdp != like.fsdp, std::abs(all[i].zero - like.zero),
                                                  apart(all[i].dp_shard, shard),
                                                  all[i].gather_late != like.gather_late};
    if (far >= least) continue;
    best = static_cast<std::uint8_t>(i);
    least = far;
  }
  return best;
}

std::optional<Space::Plan> Moves::on_mesh(const Space::Plan& plan, std::uint32_t mesh, int microbatch) const {
  const Space::Lists& from = space_.lists(plan.mesh);
  const Space::Lists& to = space_.lists(mesh);
  if (to.pipelines.empty() || to.shardings.empty()) return {};
  Space::Plan out = plan;
  out.mesh = mesh;
  Space::Pipeline like = from.pipelines[plan.pipeline];
  like.microbatch = microbatch;
  const auto found = pipeline(mesh, like);
  if (!found) return {};
  out.pipeline = *found;
  out.sharding = sharding(mesh, from.shardings[plan.sharding], space_.meshes()[plan.mesh].dp);
  const auto& sp = to.sequence_parallel;
  // Tensor parallelism that was not there before begins with sequence parallelism where that may be.
  const bool wanted = space_.meshes()[plan.mesh].tp > 1 ? plan.sequence_parallel : true;
  out.sequence_parallel = std::find(sp.begin(), sp.end(), wanted) != sp.end() ? wanted : bool{sp.front()};
  if (std::find(to.contexts.begin(), to.contexts.end(), plan.context) == to.contexts.end())
    out.context = to.contexts.front();
  return out;
}

std::vector<Space::Plan> Moves::around(const Space::Plan& plan) const {
  std::vector<Space::Plan> out;
  std::set<std::uint64_t> seen{plan_number(plan)};
  const Space::Lists& lists = space_.lists(plan.mesh);
  const Space::Pipeline own = lists.pipelines[plan.pipeline];
  for (const std::uint8_t r : space_.recomputes()) {
    Space::Plan p = plan;
    p.recompute = r;
    add(out, seen, p);
  }
  for (std::size_t i = 0; i < lists.pipelines.size(); ++i) {
    const Space::Pipeline& other = lists.pipelines[i];
    const int differ =
        (other.schedule != own.schedule) + (other.chunks != own.chunks) + (other.microbatch != own.microbatch);
    // Schedules differ in the chunks that they have at least.
    const bool schedule = other.schedule != own.schedule && other.microbatch == own.microbatch;
    if (differ > 1 && !schedule) continue;
    Space::Plan p = plan;
    p.pipeline = static_cast<std::uint16_t>(i);
    add(out, seen, p);
  }
  for (std::size_t i = 0; i < lists.shardings.size(); ++i) {
    Space::Plan p = plan;
    p.sharding = static_cast<std::uint8_t>(i);
    add(out, seen, p);
  }
  for (const bool sp : lists.sequence_parallel) {
    Space::Plan p = plan;
    p.sequence_parallel = sp;
    add(out, seen, p);
  }
  for (const std::uint8_t c : lists.contexts) {
    Space::Plan p = plan;
    p.context = c;
    add(out, seen, p);
  }
  for (std::uint8_t d = 0; d < space_.declared(); ++d) {
    Space::Plan p = plan;
    p.declared = d;
    add(out, seen, p);
  }
  for (const std::uint32_t m : meshes_around(plan.mesh)) {
    const double more = static_cast<double>(space_.meshes()[plan.mesh].dp) / space_.meshes()[m].dp;
    const int same_count = std::max(1, static_cast<int>(own.microbatch * more));
    for (const int microbatch : {own.microbatch, same_count}) {
      auto p = on_mesh(plan, m, microbatch);
      if (!p) continue;
      add(out, seen, *p);
      if (!divides_more(space_.meshes()[m], space_.meshes()[plan.mesh])) continue;
      p->recompute = space_.recomputes().front();  // What is kept may fit now.
      add(out, seen, *p);
    }
  }
  for (const std::uint8_t o : space_.offloads()) {
    Space::Plan p = plan;
    p.offload = o;
    add(out, seen, p);
  }
  return out;
}

std::vector<Space::Plan> Moves::smaller(const Space::Plan& plan) const {
  std::vector<Space::Plan> out;
  std::set<std::uint64_t> seen{plan_number(plan)};
  const Space::Lists& lists = space_.lists(plan.mesh);
  const auto at_least = [&](const Space::Plan& of, auto&& change) {
    Space::Plan p = of;
    change(p);
    add(out, seen, p);
    return p;
  };
  const std::uint8_t most_again = space_.recomputes().back();
  for (const std::uint8_t again : space_.recomputes())
    if (again > plan.recompute) at_least(plan, [&](Space::Plan& p) { p.recompute = again; });
  Space::Pipeline one = lists.pipelines[plan.pipeline];
  one.microbatch = 1;
  const auto least_batch = pipeline(plan.mesh, one);
  if (least_batch) at_least(plan, [&](Space::Plan& p) { p.pipeline = *least_batch; });
  // Sharding: all replicas, by FSDP where that is legal, else by ZeRO.
  std::vector<std::uint8_t> shards;
  const int dp = space_.meshes()[plan.mesh].dp;
  for (std::size_t i = lists.shardings.size(); i-- > 0;)
    if (lists.shardings[i].fsdp ? lists.shardings[i].dp_shard == dp : lists.shardings[i].zero > 0)
      shards.push_back(static_cast<std::uint8_t>(i));
  for (const std::uint8_t s : shards) at_least(plan, [&](Space::Plan& p) { p.sharding = s; });
  for (const std::uint8_t s : shards) {
    at_least(plan, [&](Space::Plan& p) {
      p.sharding = s;
      p.recompute = most_again;
      p.pipeline = least_batch.value_or(p.pipeline);
    });
  }
  for (const std::uint8_t o : space_.offloads()) {
    at_least(plan, [&](Space::Plan& p) {
      p.offload = o;
      p.recompute = most_again;
      p.pipeline = least_batch.value_or(p.pipeline);
      p.sharding = shards.empty() ? p.sharding : shards.front();
    });
  }
  return out;
}

std::vector<Space::Plan> Moves::seeds(const StrategySettings& own, std::size_t most) const {
  // One mesh for each way to divide a layer and each size of pipeline.
  std::map<std::tuple<int, int, int, int, int, int>, std::uint32_t> families;
  for (std::uint32_t m = 0; m < space_.meshes().size(); ++m) {
    const Space::Mesh& mesh = space_.meshes()[m];
    const bool divided = mesh.tp <= node_ && (mesh.cp == 1 || mesh.cp == own.cp || mesh.tp * mesh.cp <= node_);
    if (divided) families.try_emplace({mesh.tp, mesh.pp, mesh.ep, mesh.etp, mesh.cp, mesh.tile_h * mesh.tile_w}, m);
  }
  std::vector<std::uint32_t> chosen;
  for (const auto& [key, m] : families) chosen.push_back(m);
  const auto size = [&](std::uint32_t m) {
    const Space::Mesh& mesh = space_.meshes()[m];
    return static_cast<double>(mesh.tp) * mesh.pp * mesh.ep;
  };
  std::stable_sort(chosen.begin(), chosen.end(), [&](std::uint32_t a, std::uint32_t b) { return size(a) > size(b); });
  std::vector<Space::Plan> out;
  const double step = std::max(1.0, static_cast<double>(chosen.size()) / static_cast<double>(most));
  for (double at = 0; at < static_cast<double>(chosen.size()); at += step) {
    const std::uint32_t m = chosen[static_cast<std::size_t>(at)];
    const Space::Lists& lists = space_.lists(m);
    if (lists.pipelines.empty() || lists.shardings.empty()) continue;
    Space::Plan p;
    p.mesh = m;
    p.pipeline = pipeline(m, {lists.pipelines.front().schedule, false, 1, static_cast<std::int32_t>(own.microbatch)})
                     .value_or(0);
    for (std::size_t i = 0; i < lists.pipelines.size(); ++i)  // The scenario's schedule where it runs.
      if (lists.pipelines[i].microbatch == own.microbatch && lists.pipelines[i].chunks == own.virtual_stages &&
          space_.settings({m, static_cast<std::uint16_t>(i)}).schedule == own.schedule)
        p.pipeline = static_cast<std::uint16_t>(i);
    p.sharding = sharding(
        m, {1, own.overlap.param_gather, own.fsdp.enabled && space_.meshes()[m].pp == 1, space_.meshes()[m].dp},
        space_.meshes()[m].dp);
    p.recompute = space_.recomputes().front();  // More where that does not fit.
    p.offload = space_.offloads().front();
    p.context = lists.contexts.front();
    p.sequence_parallel = lists.sequence_parallel.back();
    out.push_back(p);
  }
  return out;
}

}  // namespace rehearse
