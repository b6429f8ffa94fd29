#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/fleet/engine/placer.hpp"
#include "core/fleet/quota.hpp"
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

void check_queues(const Fleet& f, const QuotaTree& tree) {
  std::set<std::string> names;
  for (const Queue& q : f.queues) {
    if (!names.insert(q.name).second)
      refuse_at(q.where + "/name", fmt::format("two queues are called '{}'", q.name), "give each its own name");
    if (q.guaranteed < 0 || q.limit < 0 || q.weight < 0 || q.borrow < 0 || q.lend < 0)
      refuse_at(q.where, fmt::format("queue '{}' has a negative amount", q.name), "0 or more");
    if (q.limit < q.guaranteed)
      refuse_at(q.where + "/limit",
                fmt::format("queue '{}' may hold {} GPUs and is guaranteed {}", q.name, q.limit, q.guaranteed),
                "a limit is not below the guarantee");
  }
  const double gpus = static_cast<double>(tree.capacity.gpu_milli) / kWholeGpu;
  double sum = 0;
  for (std::size_t q = 1; q < tree.nodes.size(); ++q) {
    const QuotaTree::Node& n = tree.nodes[q];
    double below = 0;
    for (const int child : n.children) below += tree[child].settings.guaranteed;
    if (n.parent == 0) sum += std::max(n.settings.guaranteed, below);
  }
  if (sum > gpus * (1 + 1e-9))
    refuse_at(f.origin + ": /queues",
              fmt::format("queues are guaranteed {:.6g} GPUs, and the cluster has {:.6g}", sum, gpus),
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
void check_possible(const Fleet& f, const QuotaTree& tree) {
  const std::unique_ptr<Quota> quota = quotas().at(f.policy.quota).value(Parameters(f.policy.parameters));
  quota->begin(tree);
  Machines empty(f.nodes);
  Placer placer(empty, f.jobs, placements().at(f.policy.placement).value(), f.seed);
  std::map<std::string, int> leaf;
  for (std::size_t q = 0; q < f.queues.size(); ++q) leaf[f.queues[q].name] = static_cast<int>(q) + 1;
  std::set<std::pair<int, int>> seen;
  for (std::size_t i = 0; i < f.jobs.size(); ++i) {
    const Job& j = f.jobs[i];
    const int queue = j.queue.empty() ? 0 : leaf[j.queue], shape = placer.shape_of(i);
    if (!seen.emplace(queue, shape).second) continue;
    const Request& r = j.request;
    if (!placer.could_ever(empty, shape))
      throw Error(
          ErrorKind::infeasible,
          fmt::format("job '{}' can never run: no {} GPUs{}{} fit the nodes, even if all were free", j.name,
                      r.elastic() ? r.min_gpus : r.gpus, r.models.empty() ? "" : " of ", fmt::join(r.models, " or ")),
          j.where, "ask for less, or for another model or pool");
    if (!quota->could_ever(queue, nth(placer.shapes(), shape).least_milli))
      throw Error(ErrorKind::infeasible,
                  fmt::format("job '{}' can never run: queue '{}' may never hold {} GPUs", j.name, j.queue,
                              r.elastic() ? r.min_gpus : r.gpus),
                  j.where, "raise the queue's guarantee, limit or borrowing");
  }
}

}  // namespace

void check_fleet(const Fleet& f) {
  (void)orders().at(f.policy.order), (void)rules().at(f.policy.rule);
  (void)quotas().at(f.policy.quota), (void)placements().at(f.policy.placement);
  check_nodes(f);
  Amounts capacity;
  for (const Node& n : f.nodes) capacity += {static_cast<std::int64_t>(n.gpus) * kWholeGpu, n.cpu_milli, n.memory_mib};
  const QuotaTree tree = make_quota_tree(f.queues, capacity);
  check_queues(f, tree);
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
  check_possible(f, tree);
}

}  // namespace rehearse::fleet
