// Kueue (kubernetes-sigs/kueue, API kueue.x-k8s.io/v1beta2): a group of queues is a Cohort, a queue that holds jobs a
// ClusterQueue with a LocalQueue of its name. All hang under one Cohort, which has what nobody is guaranteed, so that
// whoever may borrow can. Fields as in config/components/crd/bases of that repository.

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "core/export/fleet/manifests.hpp"
#include "core/fleet/engine/planes.hpp"

namespace rehearse {
namespace {

using namespace manifests;

constexpr const char* kApi = "kueue.x-k8s.io/v1beta2";
constexpr const char* kFlavor = "gpus";     ///< Where quotas are over all pools.
constexpr const char* kPoolLabel = "pool";  ///< Of nodes.

class Kueue {
 public:
  explicit Kueue(const fleet::Fleet& f)
      : fleet_(f), names_(queue_names(f)), pools_(queues_by_pool(f)), root_(free_root_name()) {
    for (PoolQueues& p : pools_)
      if (p.pool.empty()) p.pool = kFlavor;
  }

  Exported run() {
    ordered_json queues = ordered_json::array(), jobs = ordered_json::array();
    for (const PoolQueues& p : pools_) queues.push_back(flavor(p));
    queues.push_back(root());
    for (std::size_t q = 0; q < names_.size(); ++q) {
      if (is_group(q)) {
        queues.push_back(cohort(q));
      } else {
        queues.push_back(cluster_queue(q));
        queues.push_back({{"apiVersion", kApi},
                          {"kind", "LocalQueue"},
                          {"metadata", {{"name", names_[q]}, {"namespace", "default"}}},
                          {"spec", {{"clusterQueue", names_[q]}}}});
      }
    }
    add_priorities(queues);
    for (const fleet::Job& job : fleet_.jobs) jobs.push_back(job_of(job));
    Exported out;
    out.files = {list_file("queues.json", queues), list_file("jobs.json", jobs)};
    add_left_out(fleet_, out);
    const auto shared = std::any_of(fleet_.jobs.begin(), fleet_.jobs.end(),
                                    [](const fleet::Job& j) { return j.request.milli < fleet::kWholeGpu; });
    if (by_pool()) add_pool_note(kPoolLabel, out);
    if (shared) out.left_out.push_back({"jobs.gpus below 1", "", "Kueue counts whole GPUs: such jobs ask for one"});
    out.notes.emplace_back("kubectl apply -f queues.json, then kubectl create -f jobs.json");
    return out;
  }

 private:
  [[nodiscard]] bool is_group(std::size_t q) const {
    return std::any_of(fleet_.queues.begin(), fleet_.queues.end(),
                       [&](const fleet::Queue& other) { return other.parent == fleet_.queues[q].name; });
  }
  [[nodiscard]] std::string free_root_name() const {
    std::string out = object_name(fleet_.name) + "-cluster";
    while (std::find(names_.begin(), names_.end(), out) != names_.end()) out += "-all";
    return object_name(out);
  }
  [[nodiscard]] std::string parent_of(std::size_t q) const {
    for (std::size_t p = 0; p < names_.size(); ++p)
      if (fleet_.queues[p].name == fleet_.queues[q].parent) return names_[p];
    return root_;
  }
  [[nodiscard]] bool by_pool() const { return fleet::quotas_by_pool(fleet_); }
  [[nodiscard]] ordered_json flavor(const PoolQueues& p) const {
    ordered_json out{{"apiVersion", kApi}, {"kind", "ResourceFlavor"}, {"metadata", {{"name", p.pool}}}};
    if (by_pool()) out["spec"] = {{"nodeLabels", {{kPoolLabel, p.pool}}}};
    return out;
  }

  /// What queues right below `parent` are guaranteed in a pool; an empty name is the cluster.
  [[nodiscard]] double guaranteed_below(const PoolQueues& p, const std::string& parent) const {
    double out = 0;
    for (std::size_t q = 0; q < p.queues.size(); ++q)
      if (p.queues[q].parent == parent)
        out += std::max(p.queues[q].guaranteed, is_group(q) ? guaranteed_below(p, p.queues[q].name) : 0);
    return out;
  }

  static ordered_json flavor_quota(const PoolQueues& p, double nominal, std::optional<double> borrowing,
                                   std::optional<double> lending) {
    ordered_json gpu{{"name", "nvidia.com/gpu"}, {"nominalQuota", quantity(nominal)}};
    if (borrowing) gpu["borrowingLimit"] = quantity(*borrowing);
    if (lending) gpu["lendingLimit"] = quantity(*lending);
    return {{"name", p.pool}, {"resources", ordered_json::array({gpu})}};
  }
  static ordered_json groups(const ordered_json& flavors) {
    if (flavors.empty()) return ordered_json::array();
    return ordered_json::array({{{"coveredResources", {"nvidia.com/gpu"}}, {"flavors", flavors}}});
  }
  /// With the limits that the queue states. Its flavors stand in its order of preference.
  [[nodiscard]] ordered_json groups_of(std::size_t queue) const {
    std::vector<const PoolQueues*> order;
    for (const fleet::PoolQuota& own : fleet_.queues[queue].pools)
      for (const PoolQueues& p : pools_)
        if (p.pool == object_name(own.pool)) order.push_back(&p);
    if (fleet_.queues[queue].pools.empty())
      for (const PoolQueues& p : pools_) order.push_back(&p);
    ordered_json flavors = ordered_json::array();
    for (const PoolQueues* const p : order) {
      const fleet::Queue& q = p->queues[queue];
      const double own = is_group(queue) ? std::max(0.0, q.guaranteed - guaranteed_below(*p, q.name)) : q.guaranteed;
      std::optional<double> most, lending;
      if (std::isfinite(p->borrowing[queue])) most = std::max(0.0, p->borrowing[queue]);
      if (std::isfinite(q.lend)) lending = q.lend;
      flavors.push_back(flavor_quota(*p, own, most, lending));
    }
    return groups(flavors);
  }

  [[nodiscard]] ordered_json root() const {
    ordered_json flavors = ordered_json::array();
    for (const PoolQueues& p : pools_)
      flavors.push_back(flavor_quota(p, std::max(0.0, p.gpus - guaranteed_below(p, "")), {}, {}));
    return {{"apiVersion", kApi},
            {"kind", "Cohort"},
            {"metadata", {{"name", root_}}},
            {"spec", {{"resourceGroups", groups(flavors)}}}};
  }
  [[nodiscard]] ordered_json cohort(std::size_t q) const {
    const fleet::Queue& s = fleet_.queues[q];
    return {{"apiVersion", kApi},
            {"kind", "Cohort"},
            {"metadata", {{"name", names_[q]}}},
            {"spec",
             {{"parentName", parent_of(q)},
              {"fairSharing", {{"weight", quantity(s.weight)}}},
              {"resourceGroups", groups_of(q)}}}};
  }
  [[nodiscard]] ordered_json cluster_queue(std::size_t q) const {
    const fleet::Queue& s = fleet_.queues[q];
    const char* const reclaim = s.reclaim == fleet::Reclaim::never            ? "Never"
                                : s.reclaim == fleet::Reclaim::lower_priority ? "LowerPriority"
                                                                              : "Any";
    return {{"apiVersion", kApi},
            {"kind", "ClusterQueue"},
            {"metadata", {{"name", names_[q]}}},
            {"spec",
             {{"namespaceSelector", ordered_json::object()},
              {"cohortName", parent_of(q)},
              {"queueingStrategy", "BestEffortFIFO"},
              {"fairSharing", {{"weight", quantity(s.weight)}}},
              {"preemption",
               {{"reclaimWithinCohort", reclaim}, {"withinClusterQueue", s.preempts_own ? "LowerPriority" : "Never"}}},
              {"resourceGroups", groups_of(q)}}}};
  }

  void add_priorities(ordered_json& to) const {
    std::set<int> priorities;
    for (const fleet::Job& j : fleet_.jobs)
      if (j.priority != 0) priorities.insert(j.priority);
    for (const int p : priorities)
      to.push_back({{"apiVersion", kApi},
                    {"kind", "WorkloadPriorityClass"},
                    {"metadata", {{"name", class_of(p)}}},
                    {"value", p}});
  }
  [[nodiscard]] static std::string class_of(int priority) {
    return (priority < 0 ? "below-" : "above-") + std::to_string(std::abs(priority));
  }

  [[nodiscard]] ordered_json job_of(const fleet::Job& job) const {
    ordered_json out = job_object(job, largest_node(fleet_));
    const fleet::Request& r = job.request;
    if (r.milli < fleet::kWholeGpu)
      for (const char* what : {"requests", "limits"})
        out["spec"]["template"]["spec"]["containers"][0]["resources"][what]["nvidia.com/gpu"] = "1";
    for (std::size_t q = 0; q < names_.size(); ++q)
      if (fleet_.queues[q].name == job.queue) out["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = names_[q];
    if (job.priority != 0) out["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = class_of(job.priority);
    out["metadata"]["namespace"] = "default";
    if (r.elastic()) {
      const int pods = out["spec"]["parallelism"].get<int>();
      out["metadata"]["annotations"]["kueue.x-k8s.io/job-min-parallelism"] =
          std::to_string(std::max(1, pods * r.min_gpus / r.gpus));
    }
    out["spec"]["suspend"] = true;
    return out;
  }

  const fleet::Fleet& fleet_;
  std::vector<std::string> names_;
  std::vector<PoolQueues> pools_;
  std::string root_;
};

const bool registered_kueue = fleet_exporters().add(
    {"kueue", "ClusterQueues, LocalQueues, Cohorts and Jobs for Kueue", {}, [](const fleet::Fleet& f) {
       return Kueue(f).run();
     }});

}  // namespace
}  // namespace rehearse
