// Kueue (kubernetes-sigs/kueue, API kueue.x-k8s.io/v1beta2): a group of queues is a Cohort, a queue that holds jobs a
// ClusterQueue with a LocalQueue of its name. All hang under one Cohort, which has what nobody is guaranteed, so that
// whoever may borrow can. Fields as in config/components/crd/bases of that repository.

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "core/export/fleet/manifests.hpp"

namespace rehearse {
namespace {

using namespace manifests;

constexpr const char* kApi = "kueue.x-k8s.io/v1beta2";
constexpr const char* kFlavor = "gpus";

class Kueue {
 public:
  explicit Kueue(const fleet::Fleet& f)
      : fleet_(f), names_(queue_names(f)), borrowing_(borrowing(f)), root_(free_root_name()) {}

  Exported run() {
    ordered_json queues = ordered_json::array(), jobs = ordered_json::array();
    queues.push_back({{"apiVersion", kApi}, {"kind", "ResourceFlavor"}, {"metadata", {{"name", kFlavor}}}});
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
  /// What queues right below `parent` are guaranteed; an empty name is the cluster.
  [[nodiscard]] double guaranteed_below(const std::string& parent) const {
    double out = 0;
    for (std::size_t q = 0; q < fleet_.queues.size(); ++q)
      if (fleet_.queues[q].parent == parent)
        out += std::max(fleet_.queues[q].guaranteed, is_group(q) ? guaranteed_below(fleet_.queues[q].name) : 0);
    return out;
  }

  [[nodiscard]] static ordered_json groups(double nominal, std::optional<double> borrowing,
                                           std::optional<double> lending) {
    ordered_json gpu{{"name", "nvidia.com/gpu"}, {"nominalQuota", quantity(nominal)}};
    if (borrowing) gpu["borrowingLimit"] = quantity(*borrowing);
    if (lending) gpu["lendingLimit"] = quantity(*lending);
    return {{{"coveredResources", {"nvidia.com/gpu"}}, {"flavors", {{{"name", kFlavor}, {"resources", {gpu}}}}}}};
  }
  /// With the limits that the queue states; `own`: what it has itself.
  [[nodiscard]] ordered_json groups_of(std::size_t queue, double own) const {
    const fleet::Queue& q = fleet_.queues[queue];
    std::optional<double> most, lending;
    if (std::isfinite(borrowing_[queue])) most = std::max(0.0, borrowing_[queue]);
    if (std::isfinite(q.lend)) lending = q.lend;
    return groups(own, most, lending);
  }

  [[nodiscard]] ordered_json root() const {
    double gpus = 0;
    for (const fleet::Node& n : fleet_.nodes) gpus += n.gpus;
    return {{"apiVersion", kApi},
            {"kind", "Cohort"},
            {"metadata", {{"name", root_}}},
            {"spec", {{"resourceGroups", groups(std::max(0.0, gpus - guaranteed_below("")), {}, {})}}}};
  }
  [[nodiscard]] ordered_json cohort(std::size_t q) const {
    const fleet::Queue& s = fleet_.queues[q];
    return {{"apiVersion", kApi},
            {"kind", "Cohort"},
            {"metadata", {{"name", names_[q]}}},
            {"spec",
             {{"parentName", parent_of(q)},
              {"fairSharing", {{"weight", quantity(s.weight)}}},
              {"resourceGroups", groups_of(q, std::max(0.0, s.guaranteed - guaranteed_below(s.name)))}}}};
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
              {"resourceGroups", groups_of(q, s.guaranteed)}}}};
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
  std::vector<double> borrowing_;  // By queue, as names_.
  std::string root_;
};

const bool registered_kueue = fleet_exporters().add(
    {"kueue", "ClusterQueues, LocalQueues, Cohorts and Jobs for Kueue", {}, [](const fleet::Fleet& f) {
       return Kueue(f).run();
     }});

}  // namespace
}  // namespace rehearse
