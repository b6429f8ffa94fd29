#include "core/export/fleet/manifests.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/fleet/engine/planes.hpp"
#include "core/fleet/quota.hpp"

namespace rehearse {

Registry<FleetExporter>& fleet_exporters() {
  static Registry<FleetExporter> registry("target for a fleet");
  return registry;
}

namespace manifests {

std::string object_name(const std::string& name) {
  constexpr std::size_t kMost = 63;
  std::string out;
  for (const char c : name) {
    const auto lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool plain = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
    if (plain)
      out += lower;
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  out = out.substr(0, kMost);
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out.empty() ? "unnamed" : out;
}

std::vector<std::string> queue_names(const fleet::Fleet& fleet) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (const fleet::Queue& q : fleet.queues) {
    out.push_back(object_name(q.name));
    if (!seen.insert(out.back()).second)
      throw Error(ErrorKind::usage, fmt::format("two queues would be called '{}' in Kubernetes", out.back()), q.where,
                  "names there are lower case, digits and dashes");
  }
  return out;
}

namespace {

std::vector<double> borrowing(const fleet::Fleet& fleet, const std::vector<fleet::Queue>& queues,
                              const fleet::Amounts& capacity) {
  const fleet::QuotaTree tree = fleet::make_quota_tree(queues, capacity);
  const auto quota = fleet::quotas().at(fleet.policy.quota).value(fleet::Parameters(fleet.policy.parameters));
  quota->begin(tree);
  std::vector<double> out;
  for (std::size_t q = 0; q < queues.size(); ++q) {
    const fleet::Queue& s = queues[q];
    const auto more = static_cast<std::int64_t>(s.guaranteed * fleet::kWholeGpu) + 1;
    out.push_back(quota->could_ever(static_cast<int>(q) + 1, more) ? std::min(s.borrow, s.limit - s.guaranteed) : 0);
  }
  return out;
}

}  // namespace

std::vector<PoolQueues> queues_by_pool(const fleet::Fleet& fleet) {
  std::vector<PoolQueues> out;
  const auto add = [&](const std::string* pool) {
    const fleet::Amounts capacity = fleet::capacity_of(fleet, pool);
    PoolQueues p{pool ? object_name(*pool) : "",
                 static_cast<double>(capacity.gpu_milli) / fleet::kWholeGpu,
                 pool ? fleet::queues_in(fleet, *pool) : fleet.queues,
                 {},
                 {}};
    p.borrowing = borrowing(fleet, p.queues, capacity);
    for (const fleet::Queue& q : fleet.queues)
      p.stated.push_back(
          !pool || q.pools.empty() ||
          std::any_of(q.pools.begin(), q.pools.end(), [pool](const fleet::PoolQuota& x) { return x.pool == *pool; }));
    out.push_back(std::move(p));
  };
  if (!fleet::quotas_by_pool(fleet)) {
    add(nullptr);
    return out;
  }
  std::set<std::string> seen;
  for (const fleet::Node& n : fleet.nodes)
    if (seen.insert(n.pool).second) add(&n.pool);
  return out;
}

void add_pool_note(const std::string& label, Exported& out) {
  out.notes.push_back(
      fmt::format("Pools are told apart by a label of their nodes: kubectl label node NODE {}=POOL", label));
}

std::string quantity(double gpus) {
  if (gpus == std::floor(gpus)) return fmt::format("{:.0f}", gpus);
  return fmt::format("{}m", std::llround(gpus * 1000));
}

ExportedFile list_file(const std::string& name, const ordered_json& items) {
  const ordered_json list{{"apiVersion", "v1"}, {"kind", "List"}, {"items", items}};
  return {name, list.dump(2) + "\n"};
}

int largest_node(const fleet::Fleet& fleet) {
  int out = 1;
  for (const fleet::Node& n : fleet.nodes) out = std::max(out, n.gpus);
  return out;
}

ordered_json job_object(const fleet::Job& job, int node_gpus) {
  const fleet::Request& r = job.request;
  const int a_pod = r.pod_gpus > 0 ? r.pod_gpus : std::min(std::max(r.gpus, 1), node_gpus);
  const int pods = std::max(1, (r.gpus + a_pod - 1) / a_pod);
  // Pods of a Job are alike.
  const int each = (r.gpus + pods - 1) / pods;
  ordered_json limits;
  if (r.gpus > 0 && r.milli == fleet::kWholeGpu) limits["nvidia.com/gpu"] = std::to_string(each);
  if (r.cpu_milli > 0) limits["cpu"] = fmt::format("{}m", r.cpu_milli);
  if (r.memory_mib > 0) limits["memory"] = fmt::format("{}Mi", r.memory_mib);
  ordered_json container{{"name", "train"}, {"image", "REPLACE-WITH-YOUR-IMAGE"}};
  if (!limits.empty()) container["resources"] = {{"requests", limits}, {"limits", limits}};
  return {{"apiVersion", "batch/v1"},
          {"kind", "Job"},
          {"metadata", {{"name", object_name(job.name)}, {"labels", ordered_json::object()}}},
          {"spec",
           {{"parallelism", pods},
            {"completions", pods},
            {"completionMode", "Indexed"},
            {"template", {{"spec", {{"restartPolicy", "Never"}, {"containers", {container}}}}}}}}};
}

void add_left_out(const fleet::Fleet& fleet, Exported& out) {
  const fleet::Policy& p = fleet.policy;
  out.left_out.push_back(
      {"policy.placement", p.placement, "the scheduler's own configuration says how it scores nodes"});
  out.left_out.push_back({"policy.order", p.order, "the scheduler's own configuration says who comes first"});
  if (p.rule != "skip") out.left_out.push_back({"policy.rule", p.rule, "the scheduler's own configuration says it"});
  const auto models = std::any_of(fleet.jobs.begin(), fleet.jobs.end(), [](const fleet::Job& j) {
    return !j.request.models.empty() || !j.request.pools.empty();
  });
  if (models)
    out.left_out.push_back({"jobs.models, jobs.pools", "",
                            "nodes are not told apart by their labels: add a nodeSelector where it matters"});
  out.notes.emplace_back("Jobs have a placeholder for an image: replace it before you apply them.");
}

}  // namespace manifests
}  // namespace rehearse
