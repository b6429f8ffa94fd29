#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/fleet/engine/placer.hpp"
#include "core/fleet/engine/planes.hpp"
#include "core/fleet/result.hpp"
#include "core/fleet/rule.hpp"

namespace rehearse::fleet {

namespace {

void check_nodes(const Fleet& f) {
  if (f.nodes.empty()) refuse_at(f.origin + ": /cluster", "no node to run jobs on", "state a cluster or \"nodes\"");
  std::set<std::string> names;
  for (const Node& n : f.nodes) {
    if (!names.insert(n.name).second)
      refuse_at(f.origin + ": /cluster", fmt::format("two nodes are called '{}'", n.name), "give each its own name");
    if (n.gpus < 1 && n.cpu_milli == 0)
      refuse_at(f.origin + ": /cluster", fmt::format("node '{}' has {} GPUs", n.name, n.gpus), "1 or more");
  }
  for (const Outage& o : f.outages) {
    if (!names.contains(o.node))
      throw unknown_name("node", o.node, std::vector<std::string>(names.begin(), names.end()));
    if (o.down.value() < 0 || o.up < o.down)
      refuse_at(f.origin + ": /outages", fmt::format("'{}' comes back before it goes", o.node), "down first, then up");
  }
}

/// Of a queue's amounts, over all pools or in one of them.
void check_amounts(const Queue& q, const PoolQuota& p, const std::string& where) {
  const std::string in = p.pool.empty() ? "" : fmt::format(" in pool '{}'", p.pool);
  if (p.guaranteed < 0 || p.limit < 0 || p.borrow < 0 || p.lend < 0)
    refuse_at(where, fmt::format("queue '{}' has a negative amount{}", q.name, in), "0 or more");
  if (p.limit < p.guaranteed)
    refuse_at(where + "/limit",
              fmt::format("queue '{}' may hold {} GPUs{} and is guaranteed {}", q.name, p.limit, in, p.guaranteed),
              "a limit is not below the guarantee");
}

void check_pools(const Queue& q, const std::vector<std::string>& pools) {
  if (q.guaranteed > 0 || q.limit != kUnlimited || q.borrow != kUnlimited || q.lend != kUnlimited)
    refuse_at(q.where + "/pools", fmt::format("queue '{}' states its amounts by pool and over all", q.name),
              "state either of them");
  std::set<std::string> seen;
  for (std::size_t i = 0; i < q.pools.size(); ++i) {
    const std::string where = fmt::format("{}/pools/{}", q.where, i);
    if (std::find(pools.begin(), pools.end(), q.pools[i].pool) == pools.end()) {
      Error e = unknown_name("pool", q.pools[i].pool, pools);
      e.where = where + "/pool";
      throw e;
    }
    if (!seen.insert(q.pools[i].pool).second)
      refuse_at(where + "/pool", fmt::format("queue '{}' names pool '{}' twice", q.name, q.pools[i].pool),
                "once is enough");
    check_amounts(q, q.pools[i], where);
  }
}

void check_queues(const Fleet& f, const std::vector<std::string>& pools) {
  const bool by_pool = quotas_by_pool(f);
  std::set<std::string> names;
  for (const Queue& q : f.queues) {
    if (!names.insert(q.name).second)
      refuse_at(q.where + "/name", fmt::format("two queues are called '{}'", q.name), "give each its own name");
    if (q.weight < 0) refuse_at(q.where, fmt::format("queue '{}' has a negative amount", q.name), "0 or more");
    check_amounts(q, {.pool = "", .guaranteed = q.guaranteed, .limit = q.limit, .borrow = q.borrow, .lend = q.lend},
                  q.where);
    if (!q.pools.empty()) check_pools(q, pools);
    if (by_pool && q.pools.empty() && (q.guaranteed > 0 || q.limit != kUnlimited))
      refuse_at(q.where, fmt::format("queue '{}' states its amounts over all pools, and others by pool", q.name),
                fmt::format("\"pools\": [{{\"pool\": \"{}\", \"guaranteed\": {}}}]", pools.front(), q.guaranteed));
  }
}

/// What a subtree is guaranteed: its own, or its children's where that is more.
double guaranteed_in(const QuotaTree& tree, int node) {
  double below = 0;
  for (const int child : tree[node].children) below += guaranteed_in(tree, child);
  return std::max(tree[node].settings.guaranteed, below);
}

void check_guarantees(const Fleet& f, const QuotaTree& tree, const std::string& what) {
  const double gpus = static_cast<double>(tree.capacity.gpu_milli) / kWholeGpu, sum = guaranteed_in(tree, 0);
  if (sum > gpus * (1 + 1e-9))
    refuse_at(f.origin + ": /queues",
              fmt::format("queues are guaranteed {:.6g} GPUs, and {} has {:.6g}", sum, what, gpus),
              "lower 'guaranteed' of some, or add nodes");
}

void check_request(const Job& j) {
  const Request& r = j.request;
  if (r.gpus < 0 || (r.gpus == 0 && r.cpu_milli == 0))
    refuse_at(j.where + "/gpus", fmt::format("job '{}' asks for {} GPUs", j.name, r.gpus), "1 or more");
  if (r.milli < 1 || r.milli > kWholeGpu || (r.milli < kWholeGpu && r.gpus != 1))
    refuse_at(j.where + "/gpus", fmt::format("job '{}' asks for {} x {}/1000 of a GPU", j.name, r.gpus, r.milli),
              "a fraction is of one GPU; several are whole");
  if (r.min_gpus < 0 || r.min_gpus > r.gpus)
    refuse_at(j.where + "/min_gpus", fmt::format("job '{}' needs {} GPUs of {}", j.name, r.min_gpus, r.gpus),
              "no more than 'gpus'");
  if (r.pod_gpus > 0 && (r.gpus % r.pod_gpus != 0 || r.min_gpus % r.pod_gpus != 0))
    refuse_at(j.where + "/pod_gpus",
              fmt::format("job '{}': {} GPUs are no whole number of pods of {}", j.name, r.gpus, r.pod_gpus),
              "let it divide 'gpus' and 'min_gpus'");
}

void check_times(const Job& j) {
  for (const auto& [what, time] : {std::pair{"arrival", j.arrival}, {"duration", j.duration}, {"estimate", j.estimate}})
    if (!(time.value() >= 0) || !std::isfinite(time.value()))
      refuse_at(fmt::format("{}/{}", j.where, what), fmt::format("job '{}': {} s", j.name, time.value()), "0 or more");
  if (j.duration.value() <= 0)
    refuse_at(j.where + "/duration", fmt::format("job '{}' takes no time", j.name), "for example \"90min\"");
}

/// Once for each shape and queue: jobs that neither the nodes nor the quotas could ever hold.
void check_possible(const Fleet& f, Machines& empty) {
  const Planes planes(f, empty.pools());
  Placer placer(empty, f.jobs, placements().at(f.policy.placement).value(), f.seed);
  std::map<std::string, int> leaf;
  for (std::size_t q = 0; q < f.queues.size(); ++q) leaf[f.queues[q].name] = static_cast<int>(q) + 1;
  std::set<std::pair<int, int>> seen;
  for (std::size_t i = 0; i < f.jobs.size(); ++i) {
    const Job& j = f.jobs[i];
    const int queue = j.queue.empty() ? 0 : leaf[j.queue], shape = placer.shape_of(i);
    if (!seen.emplace(queue, shape).second) continue;
    const Request& r = j.request;
    const std::vector<int>& all = nth(placer.shapes(), shape).pools;
    if (!placer.could_ever(empty, shape, all))
      throw Error(
          ErrorKind::infeasible,
          fmt::format("job '{}' can never run: no {} GPUs{}{} fit the nodes, even if all were free", j.name,
                      r.elastic() ? r.min_gpus : r.gpus, r.models.empty() ? "" : " of ", fmt::join(r.models, " or ")),
          j.where, "ask for less, or for another model or pool");
    const std::vector<int> pools = planes.usable(queue, all);
    const bool may = std::any_of(pools.begin(), pools.end(), [&](int pool) {
      return planes.could_ever(queue, nth(placer.shapes(), shape).least_milli, pool) &&
             placer.could_ever(empty, shape, {&pool, 1});
    });
    if (!may)
      throw Error(ErrorKind::infeasible,
                  fmt::format("job '{}' can never run: queue '{}' may never hold {} GPUs{}", j.name, j.queue,
                              r.elastic() ? r.min_gpus : r.gpus, planes.by_pool() ? " of a pool where it fits" : ""),
                  j.where, "raise the queue's guarantee, limit or borrowing");
  }
}

}  // namespace

void check_fleet(const Fleet& f) {
  (void)orders().at(f.policy.order), (void)rules().at(f.policy.rule);
  (void)quotas().at(f.policy.quota), (void)placements().at(f.policy.placement);
  check_nodes(f);
  if (!(f.policy.interval.value() >= 0) || !std::isfinite(f.policy.interval.value()))
    refuse_at(f.origin + ": /policy/interval", fmt::format("{} s", f.policy.interval.value()), "0 or more");
  Machines empty(f.nodes);
  const QuotaTree tree = make_quota_tree(f.queues, capacity_of(f));
  check_queues(f, empty.pools());
  check_guarantees(f, tree, "the cluster");
  if (quotas_by_pool(f))
    for (const std::string& pool : empty.pools())
      check_guarantees(f, make_quota_tree(queues_in(f, pool), capacity_of(f, &pool)), fmt::format("pool '{}'", pool));
  std::set<std::string_view> names;
  std::map<std::string, bool> leaf;
  std::vector<std::string> all;
  for (std::size_t q = 0; q < f.queues.size(); ++q) {
    leaf[f.queues[q].name] = tree.nodes[q + 1].children.empty();
    all.push_back(f.queues[q].name);
  }
  for (const Job& j : f.jobs) {
    if (!names.insert(j.name).second)
      refuse_at(j.where + "/name", fmt::format("two jobs are called '{}'", j.name), "give each its own name");
    if (!j.queue.empty() && !leaf.contains(j.queue)) {
      Error e = unknown_name("queue", j.queue, all);
      e.where = j.where + "/queue";
      throw e;
    }
    if (!j.queue.empty() && !leaf[j.queue])
      refuse_at(j.where + "/queue", fmt::format("'{}' is a group of queues", j.queue),
                "jobs stand in one of its queues");
    if (j.queue.empty() && !f.queues.empty())
      refuse_at(j.where + "/queue", fmt::format("job '{}' is in no queue", j.name),
                fmt::format("one of {}", fmt::join(all, ", ")));
    check_times(j);
    check_request(j);
  }
  check_possible(f, empty);
}

}  // namespace rehearse::fleet
