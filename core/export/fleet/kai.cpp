// KAI (NVIDIA/KAI-Scheduler, API scheduling.run.ai/v2): a Queue for each queue and group, with quota, limit and weight
// over quota; -1 is without end. Fields as in deployments/kai-scheduler/crds of that repository.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/export/fleet/manifests.hpp"

namespace rehearse {
namespace {

using namespace manifests;

constexpr int kUsualPriority = 100;  ///< Of a Queue that states none.

bool lends_less(const fleet::Queue& q) {
  return std::isfinite(q.lend) ||
         std::any_of(q.pools.begin(), q.pools.end(), [](const fleet::PoolQuota& p) { return std::isfinite(p.lend); });
}

ordered_json amount(double quota, double limit, double weight) {
  return {{"quota", quota}, {"limit", std::isfinite(limit) ? limit : -1.0}, {"overQuotaWeight", weight}};
}

constexpr const char* kNodePoolLabel = "kai.scheduler/node-pool";  ///< Of nodes, queues and pods (SchedulingShards).

/// A queue of a pool is an object of its own: each pool has a scheduler.
std::string name_in(const PoolQueues& p, const std::string& queue) {
  return p.pool.empty() ? queue : object_name(queue + "-" + p.pool);
}

ordered_json queue_of(const PoolQueues& in, std::size_t q, const std::vector<std::string>& names) {
  const fleet::Queue& s = in.queues[q];
  ordered_json spec;
  for (std::size_t p = 0; p < names.size(); ++p)
    if (in.queues[p].name == s.parent) spec["parentQueue"] = name_in(in, names[p]);
  if (s.priority != 0) spec["priority"] = kUsualPriority + s.priority;
  const double limit = s.guaranteed + in.borrowing[q];
  spec["resources"] = {{"gpu", amount(s.guaranteed, limit, s.weight)},
                       {"cpu", amount(-1, fleet::kUnlimited, 1)},
                       {"memory", amount(-1, fleet::kUnlimited, 1)}};
  ordered_json metadata{{"name", name_in(in, names[q])}};
  if (!in.pool.empty()) metadata["labels"] = {{kNodePoolLabel, in.pool}};
  return {{"apiVersion", "scheduling.run.ai/v2"}, {"kind", "Queue"}, {"metadata", metadata}, {"spec", spec}};
}

/// Index of the pool that a job of the queue tries first.
std::size_t pool_of(const std::vector<PoolQueues>& pools, const fleet::Queue& queue, const fleet::Job& job) {
  for (const fleet::PoolQuota& p : queue.pools) {
    const auto& wanted = job.request.pools;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), p.pool) == wanted.end()) continue;
    for (std::size_t i = 0; i < pools.size(); ++i)
      if (pools[i].pool == object_name(p.pool)) return i;
  }
  return 0;
}

ordered_json job_of(const fleet::Fleet& f, const fleet::Job& job, const std::vector<std::string>& names,
                    const std::vector<PoolQueues>& pools) {
  ordered_json out = job_object(job, largest_node(f));
  ordered_json& pod = out["spec"]["template"];
  for (std::size_t q = 0; q < names.size(); ++q) {
    if (f.queues[q].name == job.queue) {
      const PoolQueues& in = pools[pool_of(pools, f.queues[q], job)];
      out["metadata"]["labels"]["kai.scheduler/queue"] = name_in(in, names[q]);
      pod["metadata"]["labels"]["kai.scheduler/queue"] = name_in(in, names[q]);
      if (!in.pool.empty()) pod["metadata"]["labels"][kNodePoolLabel] = in.pool;
    }
  }
  if (job.request.milli < fleet::kWholeGpu)
    pod["metadata"]["annotations"]["gpu-fraction"] = fmt::format("{:.3g}", job.request.milli / 1000.0);
  pod["spec"]["schedulerName"] = "kai-scheduler";
  return out;
}

Exported kai(const fleet::Fleet& f) {
  const std::vector<std::string> names = queue_names(f);
  ordered_json queues = ordered_json::array(), jobs = ordered_json::array();
  const std::vector<PoolQueues> pools = queues_by_pool(f);
  for (const PoolQueues& in : pools)
    for (std::size_t q = 0; q < names.size(); ++q)
      if (in.stated[q]) queues.push_back(queue_of(in, q, names));
  for (const fleet::Job& job : f.jobs) jobs.push_back(job_of(f, job, names, pools));
  Exported out;
  out.files = {list_file("queues.json", queues), list_file("jobs.json", jobs)};
  add_left_out(f, out);
  if (!pools.front().pool.empty()) {
    add_pool_note(kNodePoolLabel, out);
    out.left_out.push_back({"queues.pools", "", "a job of KAI is in one node pool: it goes to the first of its queue"});
  }
  if (std::any_of(f.queues.begin(), f.queues.end(), [](const fleet::Queue& q) { return lends_less(q); }))
    out.left_out.push_back({"queues.lend", "", "KAI lends whatever a queue does not use"});
  if (std::any_of(f.queues.begin(), f.queues.end(),
                  [](const fleet::Queue& q) { return q.reclaim != fleet::Reclaim::any; }))
    out.left_out.push_back(
        {"queues.reclaim", "", "KAI takes back what a queue is guaranteed from whoever borrowed it"});
  if (std::any_of(f.jobs.begin(), f.jobs.end(), [](const fleet::Job& j) { return j.priority != 0; }))
    out.left_out.push_back({"jobs.priority", "", "name one of the cluster's PriorityClasses (priorityClassName)"});
  out.notes.emplace_back("kubectl apply -f queues.json, then kubectl create -f jobs.json");
  return out;
}

const bool registered_kai = fleet_exporters().add({"kai", "Queues and Jobs for KAI (Run:ai's scheduler)", {}, kai});

}  // namespace
}  // namespace rehearse
