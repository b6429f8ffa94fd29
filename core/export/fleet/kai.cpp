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

ordered_json amount(double quota, double limit, double weight) {
  return {{"quota", quota}, {"limit", std::isfinite(limit) ? limit : -1.0}, {"overQuotaWeight", weight}};
}

ordered_json queue_of(const fleet::Fleet& f, std::size_t q, const std::vector<std::string>& names, double most) {
  const fleet::Queue& s = f.queues[q];
  ordered_json spec;
  for (std::size_t p = 0; p < names.size(); ++p)
    if (f.queues[p].name == s.parent) spec["parentQueue"] = names[p];
  if (s.priority != 0) spec["priority"] = kUsualPriority + s.priority;
  const double limit = s.guaranteed + most;
  spec["resources"] = {{"gpu", amount(s.guaranteed, limit, s.weight)},
                       {"cpu", amount(-1, fleet::kUnlimited, 1)},
                       {"memory", amount(-1, fleet::kUnlimited, 1)}};
  return {
      {"apiVersion", "scheduling.run.ai/v2"}, {"kind", "Queue"}, {"metadata", {{"name", names[q]}}}, {"spec", spec}};
}

ordered_json job_of(const fleet::Fleet& f, const fleet::Job& job, const std::vector<std::string>& names) {
  ordered_json out = job_object(job, largest_node(f));
  ordered_json& pod = out["spec"]["template"];
  for (std::size_t q = 0; q < names.size(); ++q)
    if (f.queues[q].name == job.queue) {
      out["metadata"]["labels"]["kai.scheduler/queue"] = names[q];
      pod["metadata"]["labels"]["kai.scheduler/queue"] = names[q];
    }
  if (job.request.milli < fleet::kWholeGpu)
    pod["metadata"]["annotations"]["gpu-fraction"] = fmt::format("{:.3g}", job.request.milli / 1000.0);
  pod["spec"]["schedulerName"] = "kai-scheduler";
  return out;
}

Exported kai(const fleet::Fleet& f) {
  const std::vector<std::string> names = queue_names(f);
  ordered_json queues = ordered_json::array(), jobs = ordered_json::array();
  const std::vector<double> most = borrowing(f);
  for (std::size_t q = 0; q < names.size(); ++q) queues.push_back(queue_of(f, q, names, most[q]));
  for (const fleet::Job& job : f.jobs) jobs.push_back(job_of(f, job, names));
  Exported out;
  out.files = {list_file("queues.json", queues), list_file("jobs.json", jobs)};
  add_left_out(f, out);
  if (std::any_of(f.queues.begin(), f.queues.end(), [](const fleet::Queue& q) { return std::isfinite(q.lend); }))
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
