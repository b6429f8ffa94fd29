// Kubernetes objects: nodes, jobs, and the queues of Kueue (kubernetes-sigs/kueue, config/components/crd/bases) and KAI
// (NVIDIA/KAI-Scheduler, deployments/kai-scheduler/crds).

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/portable.hpp"
#include "core/import/fleet/fleet_draft.hpp"
#include "core/import/yaml_documents.hpp"

namespace rehearse::fleet_import {

namespace {

constexpr const char* kGpu = "nvidia.com/gpu";
constexpr const char* kNodePool = "kai.scheduler/node-pool";
constexpr double kMostAmount = 1e9;     ///< Of GPUs, pods and priorities: what an int holds.
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
  if (unit == "m")
    value /= 1000;
  else if (unit == "k")
    value *= 1000;
  else if (!unit.empty())
    return std::nullopt;
  if (!(std::abs(value) <= kMostAmount)) return std::nullopt;
  return value;
}

double amount_at(const YAML::Node& node, const Object& o, double fallback) {
  const std::string text = text_at(node);
  if (text.empty()) return fallback;
  if (const auto value = amount(text); value) return *value;
  refuse_at(o.where, fmt::format("'{}' is no number of GPUs, in {}", text, name_of_object(o.node)), "for example 8");
}

/// GPUs of one flavor.
struct Quotas {
  std::string flavor;
  double nominal = 0;
  std::optional<double> borrowing, lending;
};
/// By flavor, in the order of the object, which is that of preference.
std::vector<Quotas> quotas_of(const Object& o) {
  std::vector<Quotas> out;
  const auto limit = [&o](const YAML::Node& resource, const char* key) -> std::optional<double> {
    if (text_at(at(resource, {key})).empty()) return std::nullopt;
    return amount_at(at(resource, {key}), o, 0);
  };
  for (const YAML::Node& group : at(o.node, {"spec", "resourceGroups"}))
    for (const YAML::Node& flavor : at(group, {"flavors"}))
      for (const YAML::Node& resource : at(flavor, {"resources"}))
        if (text_at(at(resource, {"name"})) == kGpu)
          out.push_back({text_at(at(flavor, {"name"})), amount_at(at(resource, {"nominalQuota"}), o, 0),
                         limit(resource, "borrowingLimit"), limit(resource, "lendingLimit")});
  return out;
}
/// Over all flavors. A limit that one of them lacks is no limit.
Quotas added_up(const std::vector<Quotas>& all) {
  Quotas out;
  if (all.empty()) return out;
  out.borrowing = out.lending = 0;
  for (const Quotas& q : all) {
    out.nominal += q.nominal;
    const auto add = [](std::optional<double>& to, const std::optional<double>& more) {
      to = to && more ? std::optional(*to + *more) : std::nullopt;
    };
    add(out.borrowing, q.borrowing);
    add(out.lending, q.lending);
  }
  return out;
}

/// As a fleet's file has them.
void set_amounts(ordered_json& to, const Quotas& q) {
  to["guaranteed"] = q.nominal;
  if (q.borrowing) to["borrow"] = *q.borrowing;
  if (q.lending) to["lend"] = *q.lending;
}

class Manifests {
 public:
  Manifests(const std::vector<FleetFile>& files, const FleetImportOptions& options, Draft& to)
      : options_(options), to_(to) {
    for (const FleetFile& f : files) {
      try {
        for (const YAML::Node& node : yaml_documents(f.text)) collect(node, f.path, 0);
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
    if (left_out_ > kMostNamed)
      to_.notes.push_back(fmt::format("{} more ask for no GPUs and are left out", left_out_ - kMostNamed));
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

  /// The first flavor whose labels the node has, or its node pool of KAI; empty: neither.
  [[nodiscard]] std::string pool_of(const Object& node) const {
    const YAML::Node labels = at(node.node, {"metadata", "labels"});
    const auto flavors = objects_.find("ResourceFlavor");
    for (const Object& f : flavors == objects_.end() ? std::vector<Object>{} : flavors->second) {
      const YAML::Node wanted = at(f.node, {"spec", "nodeLabels"});
      if (!wanted.IsMap() || wanted.size() == 0) continue;
      const bool all = std::all_of(wanted.begin(), wanted.end(), [&labels](const auto& label) {
        return text_at(at(labels, {label.first.Scalar().c_str()})) == label.second.Scalar();
      });
      if (all) return name_of_object(f.node);
    }
    return text_at(at(labels, {kNodePool}));
  }

  void nodes() {
    std::map<std::tuple<int, std::string, std::string>, int> kinds;
    for (const Object& o : objects_["Node"]) {
      const int gpus = static_cast<int>(amount_at(at(o.node, {"status", "allocatable", kGpu}), o, 0));
      if (gpus > 0) ++kinds[{gpus, text_at(at(o.node, {"metadata", "labels", "nvidia.com/gpu.product"})), pool_of(o)}];
    }
    for (const auto& [kind, count] : kinds) {
      const auto& [gpus, product, flavor] = kind;
      ordered_json pool{{"gpus", gpus}, {"nodes", count}};
      if (!product.empty()) pool["name"] = pool["model"] = product;
      if (!flavor.empty()) pool["name"] = flavor, pools_.insert(flavor);
      to_.pools.push_back(std::move(pool));
    }
  }

  /// Flavors that quotas name, where all of them are pools of the nodes that were given and there are several: quotas
  /// are by pool then. Empty: quotas are over all flavors.
  [[nodiscard]] std::vector<std::string> flavors_apart() {
    std::vector<std::string> out;
    for (const char* kind : {"ClusterQueue", "Cohort"})
      for (const Object& o : objects_[kind])
        for (const Quotas& q : quotas_of(o))
          if (std::find(out.begin(), out.end(), q.flavor) == out.end()) out.push_back(q.flavor);
    if (out.size() < 2) return {};
    const bool known = options_.nodes == 0 &&
                       std::all_of(out.begin(), out.end(), [this](const auto& f) { return pools_.contains(f); });
    if (known) return out;
    to_.notes.emplace_back(
        "quotas of several flavors are added up: give the nodes and the ResourceFlavors with their nodeLabels to keep "
        "them apart");
    return {};
  }

  void kueue_queues() {
    if (objects_["ClusterQueue"].empty()) return;
    to_.quota = "borrowing";
    flavors_ = flavors_apart();
    std::map<std::string, ordered_json> cohorts;
    for (const Object& o : objects_["Cohort"])
      cohorts[name_of_object(o.node)] = queue_json(o, text_at(at(o.node, {"spec", "parentName"})));
    std::vector<ordered_json> leaves;
    for (const Object& o : objects_["ClusterQueue"]) {
      std::string cohort = text_at(at(o.node, {"spec", "cohortName"}));
      if (cohort.empty()) cohort = text_at(at(o.node, {"spec", "cohort"}));
      if (!cohort.empty() && !cohorts.contains(cohort)) cohorts[cohort] = {{"name", cohort}};  // It need not be stated.
      leaves.push_back(queue_json(o, cohort));
      const YAML::Node preemption = at(o.node, {"spec", "preemption"});
      const std::string reclaim = text_at(at(preemption, {"reclaimWithinCohort"})),
                        within = text_at(at(preemption, {"withinClusterQueue"}));
      leaves.back()["reclaim"] = reclaim == "Any" ? "any" : reclaim == "LowerPriority" ? "lower_priority" : "never";
      if (!within.empty() && within != "Never") leaves.back()["preempts_own"] = true;
    }
    include_below(cohorts, leaves);
    for (const Object& o : objects_["LocalQueue"])
      local_[text_at(at(o.node, {"metadata", "namespace"})) + "/" + name_of_object(o.node)] =
          text_at(at(o.node, {"spec", "clusterQueue"}));
    for (const auto& [name, json] : cohorts) to_.queues.push_back(json);
    for (ordered_json& leaf : leaves) to_.queues.push_back(std::move(leaf));
  }

  /// What a queue is guaranteed of a flavor; of all where it is empty.
  static double guaranteed_of(const ordered_json& queue, const std::string& flavor) {
    if (flavor.empty()) return queue.value("guaranteed", 0.0);
    if (queue.contains("pools"))
      for (const ordered_json& p : queue["pools"])
        if (p["pool"] == flavor) return p.value("guaranteed", 0.0);
    return 0;
  }

  using Cohorts = std::map<std::string, ordered_json>;

  /// What hangs under a cohort is guaranteed. Circles are for whoever reads the fleet to refuse.
  static double below(const std::string& name, const std::string& flavor, const Cohorts& cohorts,
                      const std::vector<ordered_json>& leaves, std::set<std::string>& seen) {
    if (!seen.insert(name).second) return 0;
    double out = 0;
    for (const ordered_json& leaf : leaves)
      if (leaf.value("parent", "") == name) out += guaranteed_of(leaf, flavor);
    for (const auto& [other, json] : cohorts)
      if (json.value("parent", "") == name)
        out += guaranteed_of(json, flavor) + below(other, flavor, cohorts, leaves, seen);
    return out;
  }

  /// What a cohort has is beside what its queues have; a group's guarantee in a fleet's file holds both.
  void include_below(Cohorts& cohorts, const std::vector<ordered_json>& leaves) const {
    const Cohorts own = cohorts;
    for (auto& [name, json] : cohorts) {
      const auto sum = [&, &of = name](const std::string& flavor) {
        std::set<std::string> seen;
        return guaranteed_of(own.at(of), flavor) + below(of, flavor, own, leaves, seen);
      };
      if (flavors_.empty()) json["guaranteed"] = sum("");
      for (const std::string& flavor : flavors_) {
        auto at_pool = std::find_if(json["pools"].begin(), json["pools"].end(),
                                    [&flavor](const ordered_json& p) { return p["pool"] == flavor; });
        if (at_pool == json["pools"].end()) {
          json["pools"].push_back({{"pool", flavor}});
          at_pool = std::prev(json["pools"].end());
        }
        (*at_pool)["guaranteed"] = sum(flavor);
      }
    }
  }

  [[nodiscard]] ordered_json queue_json(const Object& o, const std::string& parent) const {
    ordered_json out{{"name", name_of_object(o.node)}};
    if (!parent.empty()) out["parent"] = parent;
    const std::vector<Quotas> quotas = quotas_of(o);
    if (flavors_.empty()) set_amounts(out, added_up(quotas));
    for (const Quotas& q : flavors_.empty() ? std::vector<Quotas>{} : quotas) {
      ordered_json pool{{"pool", q.flavor}};
      set_amounts(pool, q);
      out["pools"].push_back(std::move(pool));
    }
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
      ordered_json amounts{{"guaranteed", std::max(0.0, amount_at(at(gpu, {"quota"}), o, 0))}};
      if (const double limit = amount_at(at(gpu, {"limit"}), o, -1); limit >= 0) amounts["limit"] = limit;
      if (const std::string pool = text_at(at(o.node, {"metadata", "labels", kNodePool})); pools_.contains(pool)) {
        amounts["pool"] = pool;
        out["pools"] = ordered_json::array({amounts});
      } else {
        out.update(amounts);
      }
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
      if (++left_out_ <= kMostNamed)
        to_.notes.push_back(fmt::format("{}: {} {} asks for no GPUs and is left out", o.where, kind,
                                        name.empty() ? "without a name" : name));
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

  /// Each document, and what lists hold. Aliases may put a list into itself, or into others again and again.
  void collect(const YAML::Node& node, const std::string& where, int depth) {
    constexpr int kDeepestList = 16;
    constexpr std::size_t kMostObjects = 1'000'000;
    if (depth > kDeepestList || ++collected_ > kMostObjects)
      refuse_at(where, "more lists inside one another, or more objects, than manifests have");
    if (!node.IsMap()) return;
    const std::string kind = text_at(at(node, {"kind"}));
    if (at(node, {"items"}).IsSequence()) {
      for (const YAML::Node& item : at(node, {"items"})) collect(item, where, depth + 1);
      return;
    }
    if (!kind.empty()) objects_[kind].push_back({node, where});
  }

  const FleetImportOptions& options_;
  Draft& to_;
  std::size_t collected_ = 0;
  std::map<std::string, std::vector<Object>> objects_;  // By kind.
  std::set<std::string> pools_;                         // Flavors that nodes are of.
  std::vector<std::string> flavors_;                    // That quotas are stated by; empty: over all.
  std::map<std::string, std::string> local_;            // LocalQueue, as namespace/name, to ClusterQueue.
  std::map<std::string, int> names_;
  static constexpr int kMostNamed = 10;  ///< Of the jobs that are left out.
  int left_out_ = 0;
  bool told_ = false;
};

}  // namespace

void read_manifests(const std::vector<FleetFile>& files, const FleetImportOptions& options, Draft& to) {
  Manifests(files, options, to).read();
}

}  // namespace rehearse::fleet_import
