#include "core/api/fleet.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/api/data_directory.hpp"
#include "core/api/session/scenario_cluster.hpp"
#include "core/api/session/scenario_file.hpp"
#include "core/api/step.hpp"
#include "core/base/error.hpp"
#include "core/fleet/read_fleet.hpp"
#include "core/plan/reliability.hpp"

namespace rehearse {

namespace {

using fleet::Fleet;
using fleet::Job;
using fleet::Node;

/// A step somewhere: its time, or why there is none.
struct Step {
  std::optional<Seconds> time;
  double tokens = 0;  ///< Of one step; 0 where samples are not sequences.
  std::string why;
};

/// Steps of scenarios on numbers of GPUs of a machine, each worked out once.
class Pricer {
 public:
  Pricer(const Fleet& fleet, const FleetOptions& options) : fleet_(fleet), data_(options.data) {}

  const Scenario& scenario(const Job& job) {
    const auto key = std::pair(job.work->file, job.work->set);
    if (const auto at = scenarios_.find(key); at != scenarios_.end()) return at->second;
    return scenarios_.emplace(key, load_scenario_file(path_of(job.work->file), job.work->set)).first->second;
  }

  const Step& step(const Job& job, int gpus, const Node& node) {
    const auto key = std::tuple(job.work->file, job.work->set, gpus, node.machine);
    if (const auto at = steps_.find(key); at != steps_.end()) return at->second;
    return steps_.emplace(key, priced(scenario(job), gpus, node)).first->second;
  }

 private:
  /// Beside the fleet's file, else as any scenario is looked for.
  [[nodiscard]] std::string path_of(const std::string& file) const {
    const auto beside = std::filesystem::path(fleet_.origin).parent_path() / file;
    return std::filesystem::is_regular_file(beside) ? beside.string() : file;
  }

  [[nodiscard]] Step priced(Scenario on, int gpus, const Node& node) const {
    const int nodes = (gpus - 1) / node.gpus + 1;
    const std::string network = fleet_.network.empty() ? on.cluster.network : fleet_.network;
    on.cluster = {};
    on.cluster.parts = {{node.machine, nodes}};
    if (nodes > 1) on.cluster.network = network;
    if (gpus % nodes != 0) return {{}, 0, fmt::format("{} GPUs do not divide over {} nodes", gpus, nodes)};
    on.cluster.gpus_per_node = gpus / nodes;
    EstimateOptions options;
    options.data = data_;
    options.suggest = false;
    try {
      const StepReport report = estimate(on, options);
      if (!report.memory.fits())
        return {{},
                0,
                fmt::format("needs {} of {}", to_string(report.memory.tightest().needed),
                            to_string(report.memory.tightest().capacity))};
      const StepMetrics metrics = with_bias(report).metrics;
      return {metrics.step_time, metrics.tokens_per_s * metrics.step_time.value(), {}};
    } catch (const Error& e) {
      if (e.kind != ErrorKind::usage) throw;
      return {{}, 0, e.what()};
    }
  }

  const Fleet& fleet_;
  std::filesystem::path data_;
  std::map<std::pair<std::string, std::vector<std::string>>, Scenario> scenarios_;
  std::map<std::tuple<std::string, std::vector<std::string>, int, std::string>, Step> steps_;
};

bool among(const std::vector<std::string>& allowed, const std::string& name) {
  return allowed.empty() || std::find(allowed.begin(), allowed.end(), name) != allowed.end();
}

/// One node of each machine that the job may get.
std::vector<const Node*> machines_for(const Fleet& fleet, const Job& job) {
  std::vector<const Node*> out;
  std::set<std::string> seen;
  for (const Node& n : fleet.nodes) {
    if (!among(job.request.models, n.model) || !among(job.request.pools, n.pool)) continue;
    if (n.machine.empty())
      refuse_at(job.where + "/scenario",
                fmt::format("job '{}' may get nodes of pool '{}', whose machine is not known", job.name, n.pool),
                "give the pool a \"machine\": 'rehearse list machines'");
    if (seen.insert(n.machine).second) out.push_back(&n);
  }
  return out;
}

/// Durations on one machine by number of GPUs; a number that does not work takes as long as the next lower one.
class Course {
 public:
  Course(Pricer& pricer, const Job& job, const Node& node) {
    const fleet::Request& r = job.request;
    const int by = r.elastic() && r.pod_gpus > 0 ? r.pod_gpus : 1;
    for (int gpus = r.elastic() ? r.min_gpus : r.gpus; gpus <= r.gpus; gpus += by) {
      const Step& step = pricer.step(job, gpus, node);
      if (!step.time) {
        why = fmt::format("on {} GPUs of {}: {}", gpus, node.machine, step.why);
      } else {
        last_ = *step.time * steps_of(job, step, pricer);
        if (least == 0) least = gpus;
      }
      if (least > 0) times.emplace_back(gpus, last_);
    }
  }

  std::vector<std::pair<int, Seconds>> times;
  int least = 0;  ///< 0: it runs nowhere here.
  std::string why;

 private:
  static double steps_of(const Job& job, const Step& step, Pricer& pricer) {
    if (job.work->steps > 0) return job.work->steps;
    const double tokens = pricer.scenario(job).training.tokens;
    if (tokens > 0 && step.tokens > 0) return tokens / step.tokens;
    refuse_at(job.where + "/steps", fmt::format("job '{}' does not say how many steps it trains", job.name),
              "add \"steps\": 10000, or training.tokens to its scenario");
  }
  Seconds last_;
};

void price(Pricer& pricer, const Fleet& fleet, Job& job) {
  std::map<std::string, std::vector<Course>> by_model;  // A model may stand in several machines.
  std::vector<std::string> order;
  std::string why;
  for (const Node* n : machines_for(fleet, job)) {
    Course course(pricer, job, *n);
    if (!course.why.empty()) why += (why.empty() ? "" : "; ") + course.why;
    if (!by_model.contains(n->model)) order.push_back(n->model);
    by_model[n->model].push_back(std::move(course));
  }
  std::vector<std::string> models;
  int least = 0;
  job.speeds.clear();
  for (const std::string& model : order) {
    const std::vector<Course>& courses = by_model[model];
    if (std::any_of(courses.begin(), courses.end(), [](const Course& c) { return c.least == 0; })) continue;
    models.push_back(model);
    for (const Course& c : courses) least = std::max(least, c.least);
    // The slowest machine with such GPUs: which one it gets is not known before.
    for (std::size_t i = 0; i < courses.front().times.size(); ++i) {
      fleet::Speed speed{courses.front().times[i].first, model, {}};
      for (const Course& c : courses)
        for (const auto& [gpus, time] : c.times)
          if (gpus == speed.gpus) speed.duration = max(speed.duration, time);
      job.speeds.push_back(speed);
    }
  }
  if (models.empty())
    throw Error(
        ErrorKind::infeasible,
        fmt::format("job '{}' can run on none of the GPUs that it may get{}", job.name, why.empty() ? "" : ": " + why),
        job.where + "/scenario", "'rehearse memory' says what would fit");
  if (models.size() < order.size()) job.request.models = models;
  if (job.request.elastic()) job.request.min_gpus = std::max(job.request.min_gpus, least);
  for (const fleet::Speed& s : job.speeds)
    if (s.gpus == job.request.gpus && s.model == models.front()) job.duration = s.duration;
}

/// The fleet's nodes as a scenario states them, in their order.
ClusterRef reference_to(const Fleet& fleet) {
  ClusterRef out;
  for (const Node& n : fleet.nodes) {
    if (n.machine.empty())
      refuse_at(fleet.origin + ": /pools", fmt::format("the machine of node '{}' is not known", n.name),
                "give its pool a \"machine\"");
    if (out.parts.empty() || out.parts.back().machine != n.machine)
      out.parts.push_back({n.machine, 1});
    else
      ++out.parts.back().nodes;
  }
  out.network = fleet.network;
  if (out.network.empty() && fleet.nodes.size() > 1)
    throw Error(ErrorKind::usage, "the network between the nodes is not known", fleet.origin + ": /network",
                "add \"network\": 'rehearse list networks'");
  return out;
}

/// A job as it stands on its nodes.
TogetherAsked standing(Pricer& pricer, const Fleet& fleet, const fleet::Stay& stay) {
  const Job& job = fleet.jobs[static_cast<std::size_t>(stay.job)];
  TogetherAsked out{job.name, pricer.scenario(job), {}, {}};
  ClusterRef& cluster = out.scenario.cluster;
  cluster = {};
  for (const fleet::Held& h : stay.held) {
    const std::string& machine = fleet.nodes[static_cast<std::size_t>(h.node)].machine;
    if (!cluster.parts.empty() && (h.gpus != cluster.gpus_per_node || machine != cluster.parts.front().machine))
      throw Error(ErrorKind::usage, "stands on unequal parts of its nodes at that moment", job.name,
                  "state its pod_gpus, or another moment");
    cluster.gpus_per_node = h.gpus;
    if (cluster.parts.empty()) cluster.parts.push_back({machine, 0});
    ++cluster.parts.front().nodes;
    out.nodes.push_back(h.node);
  }
  if (cluster.parts.front().nodes > 1) cluster.network = fleet.network;
  return out;
}

}  // namespace

void price_work(Fleet& fleet, const FleetOptions& options) {
  Pricer pricer(fleet, options);
  double done = 0;
  for (Job& job : fleet.jobs) {
    if (job.work) price(pricer, fleet, job);
    if (options.progress) options.progress(++done / static_cast<double>(fleet.jobs.size()));
  }
}

TogetherReport play_moment(const Fleet& fleet, const fleet::FleetResult& result, Seconds at, TogetherOptions options) {
  Pricer pricer(fleet, {.data = options.data, .progress = {}});
  std::vector<TogetherAsked> jobs;
  for (const fleet::Stay& s : result.stays)
    if (s.begin <= at && at < s.end && fleet.jobs[static_cast<std::size_t>(s.job)].work)
      jobs.push_back(standing(pricer, fleet, s));
  if (jobs.empty())
    throw Error(ErrorKind::usage, fmt::format("no job with a scenario runs at {}", to_string(at)), "--moment",
                "jobs with \"scenario\" can be played");
  options.reference = reference_to(fleet);
  return simulate_together(jobs, options);
}

void look_up_failures(Fleet& fleet, const FleetOptions& options) {
  const std::string& profile = fleet.failures.profile;
  if (profile.empty()) return;
  const DataDirectory data = data_in(options.data);
  const Catalogue catalogue(data.topologies());
  const std::string where = fleet.origin + ": /failures/profile";
  std::map<std::string, Seconds> known;
  for (Node& n : fleet.nodes) {
    if (n.machine.empty())
      refuse_at(where, fmt::format("the machine of node '{}' is not known", n.name),
                "give its pool a \"machine\", or state \"mtbf\"");
    if (!known.contains(n.machine)) {
      try {
        const Cluster one = named_cluster(catalogue, n.machine);
        const MachineSpec& machine = one.machine(0);
        const std::filesystem::path folder = data.topologies() / "reliability";
        const ReliabilityProfile found =
            profile == "auto" ? load_reliability(folder, one.gpu(0).generation) : named_reliability(folder, profile);
        known[n.machine] =
            run_mtbf(found.times, {static_cast<double>(machine.gpus), static_cast<double>(machine.nics), 1.0});
      } catch (Error& e) {
        if (e.where.empty()) e.where = where;
        throw;
      }
    }
    n.mtbf = known[n.machine];
  }
}

Fleet open_fleet(const std::string& path, const std::vector<std::string>& overrides, const FleetOptions& options) {
  const Catalogue catalogue(data_in(options.data).topologies());
  Fleet out = fleet::load_fleet(path, overrides, catalogue);
  price_work(out, options);
  look_up_failures(out, options);
  return out;
}

}  // namespace rehearse
