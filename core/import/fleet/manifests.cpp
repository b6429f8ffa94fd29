// Kubernetes objects: nodes, jobs, and the queues of Kueue (kubernetes-sigs/kueue, config/components/crd/bases) and KAI
// (NVIDIA/KAI-Scheduler, deployments/kai-scheduler/crds).

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/portable.hpp"
#include "core/import/fleet/fleet_draft.hpp"

namespace rehearse::fleet_import {

namespace {

constexpr const char* kGpu = "nvidia.com/gpu";
constexpr double kUsualPriority = 100;  ///< Of KAI's Queues that state none.

struct Object {
  YAML::Node node;
  std::string where;
};

/// What lies there, step by step; a null node where there is none. (yaml-cpp throws where a step is missing.)
YAML::Node at(YAML::Node node, std::initializer_list<const char*> path) {
  for (const char* const key : path) {
    if (!node || !node.IsMap()) return {};
    const YAML::Node& map = node;
    const YAML::Node next = map[key];
    if (!next) return {};
    node.reset(next);
  }
  return node;
}

std::string text_at(const YAML::Node& node) { return node && node.IsScalar() ? node.Scalar() : ""; }
std::string name_of_object(const YAML::Node& o) { return text_at(at(o, {"metadata", "name"})); }

/// "8", "500m", "2k": a Kubernetes quantity without unit.
std::optional<double> amount(const std::string& text) {
  double value = 0;
  const auto [end, failed] = number_from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{}) return std::nullopt;
  const std::string unit(end, text.data() + text.size());
  if (unit.empty()) return value;
  if (unit == "m") return value / 1000;
  if (unit == "k") return value * 1000;
  return std::nullopt;
}

double amount_at(const YAML::Node& node, const Object& o, double fallback) {
  const std::string text = text_at(node);
  if (text.empty()) return fallback;
  if (const auto value = amount(text); value && std::isfinite(*value)) return *value;
  refuse_at(o.where, fmt::format("'{}' is no number of GPUs, in {}", text, name_of_object(o.node)), "for example 8");
}

/// Each document, and what lists hold.
void collect(const YAML::Node& node, const std::string& where, std::map<std::string, std::vector<Object>>& to) {
  if (!node.IsMap()) return;
  const std::string kind = text_at(at(node, {"kind"}));
  if (at(node, {"items"}).IsSequence()) {
    for (const YAML::Node& item : at(node, {"items"})) collect(item, where, to);
    return;
  }
  if (!kind.empty()) to[kind].push_back({node, where});
}

/// Quotas of GPUs over all flavors: added up. A limit that one flavor lacks is no limit.
struct Quotas {
  double nominal = 0;
  std::optional<double> borrowing, lending;
};
Quotas quotas_of(const Object& o) {
  Quotas out;
  bool any = false, borrow_all = true, lend_all = true;
  double borrowing = 0, lending = 0;
  for (const YAML::Node& group : at(o.node, {"spec", "resourceGroups"})) {
    for (const YAML::Node& flavor : at(group, {"flavors"})) {
      for (const YAML::Node& resource : at(flavor, {"resources"})) {
        if (text_at(at(resource, {"name"})) != kGpu) continue;
        any = true;
        out.nominal += amount_at(at(resource, {"nominalQuota"}), o, 0);
        borrow_all = borrow_all && !text_at(at(resource, {"borrowingLimit"})).empty();
        lend_all = lend_all && !text_at(at(resource, {"lendingLimit"})).empty();
        borrowing += amount_at(at(resource, {"borrowingLimit"}), o, 0);
        lending += amount_at(at(resource, {"lendingLimit"}), o, 0);
      }
    }
  }
  if (any && borrow_all) out.borrowing = borrowing;
  if (any && lend_all) out.lending = lending;
  return out;
}

class Manifests {
 public:
  Manifests(const std::vector<FleetFile>& files, const FleetImportOptions& options, Draft& to)
      : options_(options), to_(to) {
    for (const FleetFile& f : files) {
      try {
        for (const YAML::Node& node : YAML::LoadAll(f.text)) collect(node, f.path, objects_);
      } catch (const YAML::Exception& e) {
        throw Error(ErrorKind::usage, "no YAML: " + e.msg, fmt::format("{}:{}", f.path, e.mark.line + 1),
                    "manifests of Kubernetes, or what sacct --parsable2 prints");
      }
    }
  }

  void read() {
    nodes();
    kueue_queues();
    kai_queues();
    for (const char* kind : {"Job", "JobSet", "TrainJob"})
      for (const Object& o : objects_[kind]) job(o, kind);
    std::string passed_over;
    for (const auto& [kind, list] : objects_)
      if (!known(kind)) passed_over += fmt::format("{}{} {}", passed_over.empty() ? "" : ", ", list.size(), kind);
    if (!passed_over.empty()) to_.notes.push_back("passed over: " + passed_over);
  }

 private:
  static bool known(const std::string& kind) {
    static const std::set<std::string> kinds{
        "Node",  "ClusterQueue", "LocalQueue", "Cohort",   "ResourceFlavor",
        "Queue", "Job",          "JobSet",     "TrainJob", "WorkloadPriorityClass"};
    return kinds.contains(kind);
  }

  void nodes() {
    std::map<std::pair<int, std::string>, int> kinds;
    for (const Object& o : objects_["Node"]) {
      const int gpus = static_cast<int>(amount_at(at(o.node, {"status", "allocatable", kGpu}), o, 0));
      if (gpus > 0) ++kinds[{gpus, text_at(at(o.node, {"metadata", "labels", "nvidia.com/gpu.product"}))}];
    }
    for (const auto& [kind, count] : kinds) {
      ordered_json pool{{"gpus", kind.first}, {"nodes", count}};
      if (!kind.second.empty()) pool["name"] = pool["model"] = kind.second;
      to_.pools.push_back(std::move(pool));
    }
  }

  void kueue_queues() {
    if (objects_["ClusterQueue"].empty()) return;
    to_.quota = "borrowing";
    std::map<std::string, ordered_json> cohorts;
    std::map<std::string, double> own;
    for (const Object& o : objects_["Cohort"]) {
      const Quotas q = quotas_of(o);
      ordered_json& json = cohorts[name_of_object(o.node)];
      json = queue_json(o, q, text_at(at(o.node, {"spec", "parentName"})));
      own[name_of_object(o.node)] = q.nominal;
    }
    std::vector<ordered_json> leaves;
    for (const Object& o : objects_["ClusterQueue"]) {
      std::string cohort = text_at(at(o.node, {"spec", "cohortName"}));
      if (cohort.empty()) cohort = text_at(at(o.node, {"spec", "cohort"}));
      if (!cohort.empty() && !cohorts.contains(cohort)) cohorts[cohort] = {{"name", cohort}};  // It need not be stated.
      leaves.push_back(queue_json(o, quotas_of(o), cohort));
      const YAML::Node preemption = at(o.node, {"spec", "preemption"});
      const std::string reclaim = text_at(at(preemption, {"reclaimWithinCohort"})),
                        within = text_at(at(preemption, {"withinClusterQueue"}));
      leaves.back()["reclaim"] = reclaim == "Any" ? "any" : reclaim == "LowerPriority" ? "lower_priority" : "never";
      if (!within.empty() && within != "Never") leaves.back()["preempts_own"] = true;
    }
    // What a cohort has is beside what its queues have; a group's guarantee here holds both.
    for (auto& [name, json] : cohorts) {
      std::set<std::string> seen;
      json["guaranteed"] = own[name] + below(name, cohorts, leaves, own, seen);
    }
    for (const Object& o : objects_["LocalQueue"])
      local_[text_at(at(o.node, {"metadata", "namespace"})) + "/" + name_of_object(o.node)] =
          text_at(at(o.node, {"spec", "clusterQueue"}));
    for (const auto& [name, json] : cohorts) to_.queues.push_back(json);
    for (ordered_json& leaf : leaves) to_.queues.push_back(std::move(leaf));
  }

  /// What hangs under a cohort is guaranteed. Circles are for whoever reads the fleet to refuse.
  static double below(const std::string& name, const std::map<std::string, ordered_json>& cohorts,
                      const std::vector<ordered_json>& leaves, std::map<std::string, double>& own,
                      std::set<std::string>& seen) {
    if (!seen.insert(name).second) return 0;
    double out = 0;
    for (const ordered_json& leaf : leaves)
      if (leaf.value("parent", "") == name) out += leaf.value("guaranteed", 0.0);
    for (const auto& [other, json] : cohorts)
      if (json.value("parent", "") == name) out += own[other] + below(other, cohorts, leaves, own, seen);
    return out;
  }

  static ordered_json queue_json(const Object& o, const Quotas& q, const std::string& parent) {
    ordered_json out{{"name", name_of_object(o.node)}};
    if (!parent.empty()) out["parent"] = parent;
    out["guaranteed"] = q.nominal;
    if (q.borrowing) out["borrow"] = *q.borrowing;
    if (q.lending) out["lend"] = *q.lending;
    if (const YAML::Node weight = at(o.node, {"spec", "fairSharing", "weight"}); !text_at(weight).empty())
      out["weight"] = amount_at(weight, o, 1);
    return out;
  }

  void kai_queues() {
    for (const Object& o : objects_["Queue"]) {
      if (!text_at(at(o.node, {"apiVersion"})).starts_with("scheduling.run.ai/")) continue;
      to_.quota = "fair";
      const YAML::Node spec = at(o.node, {"spec"}), gpu = at(spec, {"resources", "gpu"});
      ordered_json out{{"name", name_of_object(o.node)}};
      if (const std::string parent = text_at(at(spec, {"parentQueue"})); !parent.empty()) out["parent"] = parent;
      out["guaranteed"] = std::max(0.0, amount_at(at(gpu, {"quota"}), o, 0));
      if (const double limit = amount_at(at(gpu, {"limit"}), o, -1); limit >= 0) out["limit"] = limit;
      out["weight"] = amount_at(at(gpu, {"overQuotaWeight"}), o, 1);
      const auto priority = static_cast<int>(amount_at(at(spec, {"priority"}), o, kUsualPriority) - kUsualPriority);
      if (priority != 0) out["priority"] = priority;
      to_.queues.push_back(std::move(out));
    }
  }

  /// A pod template's GPUs: of all its containers; below 1 a fraction.
  static double gpus_of(const YAML::Node& pod, const Object& o) {
    double out = 0;
    for (const YAML::Node& c : at(pod, {"spec", "containers"})) {
      const YAML::Node resources = at(c, {"resources"});
      const double limit = amount_at(at(resources, {"limits", kGpu}), o, 0);
      out += limit > 0 ? limit : amount_at(at(resources, {"requests", kGpu}), o, 0);
    }
    return out > 0 ? out : amount_at(at(pod, {"metadata", "annotations", "gpu-fraction"}), o, 0);
  }

  struct Size {
    double pods = 0, gpus = 0, each = 0;
    bool alike = true;
    double seconds = 0;
  };
  static void add_pods(const YAML::Node& spec, double copies, const Object& o, Size& to) {
    const double each = gpus_of(at(spec, {"template"}), o), pods = copies * amount_at(at(spec, {"parallelism"}), o, 1);
    to.seconds = std::max(to.seconds, amount_at(at(spec, {"activeDeadlineSeconds"}), o, 0));
    if (each <= 0) return;
    to.alike = to.alike && (to.each == 0 || to.each == each);
    to.each = each;
    to.pods += pods;
    to.gpus += pods * each;
  }
  static Size size_of(const Object& o, const std::string& kind) {
    Size out;
    const YAML::Node spec = at(o.node, {"spec"});
    if (kind == "Job") add_pods(spec, 1, o, out);
    if (kind == "JobSet")
      for (const YAML::Node& r : at(spec, {"replicatedJobs"}))
        add_pods(at(r, {"template", "spec"}), amount_at(at(r, {"replicas"}), o, 1), o, out);
    if (kind == "TrainJob") {
      const YAML::Node trainer = at(spec, {"trainer"}), resources = at(trainer, {"resourcesPerNode"});
      out.pods = amount_at(at(trainer, {"numNodes"}), o, 1);
      out.each = std::max(amount_at(at(resources, {"limits", kGpu}), o, 0),
                          amount_at(at(resources, {"requests", kGpu}), o, 0));
      out.gpus = out.pods * out.each;
    }
    return out;
  }

  [[nodiscard]] std::string queue_of(const Object& o) const {
    const YAML::Node labels = at(o.node, {"metadata", "labels"});
    if (const std::string kai = text_at(at(labels, {"kai.scheduler/queue"})); !kai.empty()) return kai;
    const std::string local = text_at(at(labels, {"kueue.x-k8s.io/queue-name"}));
    if (local.empty()) return text_at(at(o.node, {"spec", "template", "metadata", "labels", "kai.scheduler/queue"}));
    for (const std::string& in :
         {text_at(at(o.node, {"metadata", "namespace"})), std::string("default"), std::string()})
      if (const auto found = local_.find(in + "/" + local); found != local_.end()) return found->second;
    return local;
  }

  [[nodiscard]] double priority_of(const Object& o) const {
    const std::string name = text_at(at(o.node, {"metadata", "labels", "kueue.x-k8s.io/priority-class"}));
    const auto found = objects_.find("WorkloadPriorityClass");
    if (name.empty() || found == objects_.end()) return 0;
    for (const Object& c : found->second)
      if (name_of_object(c.node) == name) return amount_at(at(c.node, {"value"}), c, 0);
    return 0;
  }

  void job(const Object& o, const std::string& kind) {
    std::string name = name_of_object(o.node);
    if (name.empty()) name = text_at(at(o.node, {"metadata", "generateName"}));
    const Size size = size_of(o, kind);
    if (size.gpus <= 0) {
      to_.notes.push_back(fmt::format("{}: {} {} asks for no GPUs and is left out", o.where, kind, name));
      return;
    }
    if (const int before = names_[name]++; before > 0 || name.empty()) name += fmt::format("-{}", before);
    ordered_json out{{"name", name}};
    if (const std::string queue = queue_of(o); !queue.empty()) out["queue"] = queue;
    if (const double p = priority_of(o); p != 0) out["priority"] = static_cast<std::int64_t>(p);
    out["gpus"] = size.gpus;
    if (size.pods > 1 && size.alike && size.each >= 1) out["pod_gpus"] = static_cast<std::int64_t>(size.each);
    const std::string least = text_at(at(o.node, {"metadata", "annotations", "kueue.x-k8s.io/job-min-parallelism"}));
    if (!least.empty()) out["min_gpus"] = static_cast<std::int64_t>(amount(least).value_or(0) * size.each);
    if (size.seconds <= 0 && !told_) {
      told_ = true;
      to_.notes.push_back(
          fmt::format("manifests do not say how long jobs take: {} each, unless activeDeadlineSeconds "
                      "says it. Change \"duration\", or name a \"scenario\"",
                      to_string(options_.duration)));
    }
    out["duration"] = fmt::format("{}s", size.seconds > 0 ? size.seconds : options_.duration.value());
    to_.jobs.push_back(std::move(out));
  }

  const FleetImportOptions& options_;
  Draft& to_;
  std::map<std::string, std::vector<Object>> objects_;  // By kind.
  std::map<std::string, std::string> local_;            // LocalQueue, as namespace/name, to ClusterQueue.
  std::map<std::string, int> names_;
  bool told_ = false;
};

}  // namespace

void read_manifests(const std::vector<FleetFile>& files, const FleetImportOptions& options, Draft& to) {
  Manifests(files, options, to).read();
}

}  // namespace rehearse::fleet_import
