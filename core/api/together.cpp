#include "core/api/together.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/api/backend_choice.hpp"
#include "core/api/build_info.hpp"
#include "core/api/memory.hpp"
#include "core/api/session/scenario_cluster.hpp"
#include "core/api/session/session.hpp"
#include "core/base/index.hpp"

namespace rehearse {

namespace {

/// GPUs that a job takes of each of its nodes, in its own order.
std::vector<int> wanted_nodes(const Catalogue& catalogue, const TogetherAsked& job) {
  const Cluster own = scenario_cluster(catalogue, job.scenario);
  const int some = job.scenario.cluster.gpus_per_node;
  std::vector<int> out;
  for (NodeId n = 0; n < own.node_count(); ++n) out.push_back(some > 0 ? some : own.machine(n).gpus);
  return out;
}

/// The cluster that all scenarios name: the same, or as many nodes as all want.
ClusterRef common_cluster(const std::vector<TogetherAsked>& jobs) {
  ClusterRef out = jobs.front().scenario.cluster;
  out.gpus_per_node = 0;
  for (const TogetherAsked& job : jobs) {
    ClusterRef other = job.scenario.cluster;
    if (out.network.empty()) out.network = other.network;
    const auto fail = [&](const std::string& what) {
      throw Error(ErrorKind::usage, what, job.name + ": /cluster", "name the cluster that they share with --cluster");
    };
    if (other.name != out.name || other.file != out.file || other.parts.size() != out.parts.size() ||
        (!other.network.empty() && other.network != out.network) || other.gpudirect_rdma != out.gpudirect_rdma ||
        other.pxn != out.pxn)
      fail("the jobs' clusters are of different kinds");
    if (out.parts.empty()) continue;
    if (out.parts.size() > 1) fail("clusters of several machines cannot be put together");
    if (other.parts.front().machine != out.parts.front().machine)
      fail(fmt::format("machine '{}' where {} has '{}'", other.parts.front().machine, jobs.front().name,
                       out.parts.front().machine));
    if (&job != &jobs.front()) out.parts.front().nodes += other.parts.front().nodes;
  }
  return out;
}

/// A registered cluster, a machine or a file, as a scenario would name it.
ClusterRef named_reference(const Catalogue& catalogue, const std::string& what) {
  (void)named_cluster(catalogue, what);  // Refuses what there is not.
  ClusterRef out;
  const auto clusters = catalogue.names(Catalogue::Kind::cluster);
  if (is_file_reference(what))
    out.file = what;
  else if (std::find(clusters.begin(), clusters.end(), what) != clusters.end())
    out.name = what;
  else
    out.parts = {{what, 1}};
  return out;
}

/// Gives each job its nodes.
class Deal {
 public:
  Deal(const Cluster& cluster, const std::vector<TogetherAsked>& jobs, std::vector<std::vector<int>> wanted)
      : cluster_(cluster), jobs_(jobs), wanted_(std::move(wanted)), taken_(jobs.size()) {
    free_.resize(static_cast<std::size_t>(cluster.node_count()), true);
    for (std::size_t j = 0; j < jobs.size(); ++j)
      if (!jobs[j].nodes.empty()) take_stated(j);
  }

  std::vector<std::vector<NodeId>> dealt(NodeDeal deal) {
    if (deal == NodeDeal::interleaved) {
      for (bool lacking = true; lacking;) {
        lacking = false;
        for (std::size_t j = 0; j < jobs_.size(); ++j)
          if (lacks(j)) lacking = true, take_next(j);
      }
    }
    for (std::size_t j = 0; j < jobs_.size(); ++j)
      while (lacks(j)) take_next(j);
    return taken_;
  }

 private:
  [[nodiscard]] bool lacks(std::size_t job) const { return taken_[job].size() < wanted_[job].size(); }
  [[nodiscard]] int next_wanted(std::size_t job) const { return wanted_[job][taken_[job].size()]; }
  [[nodiscard]] bool suits(NodeId node, int gpus) const { return cluster_.machine(node).gpus >= gpus; }
  [[noreturn]] void fail(std::size_t job, const std::string& what) const {
    throw Error(ErrorKind::usage, what, jobs_[job].name, "");
  }

  void take(std::size_t job, NodeId node) {
    free_[static_cast<std::size_t>(node)] = false;
    taken_[job].push_back(node);
  }

  void take_stated(std::size_t job) {
    const std::vector<NodeId>& nodes = jobs_[job].nodes;
    if (nodes.size() != wanted_[job].size())
      fail(job, fmt::format("{} nodes are stated for {}", nodes.size(), wanted_[job].size()));
    for (const NodeId n : nodes) {
      if (n < 0 || n >= cluster_.node_count())
        fail(job, fmt::format("node {} of a cluster of {}", n, cluster_.node_count()));
      if (!free_[static_cast<std::size_t>(n)]) fail(job, fmt::format("node {} has a job already", n));
      if (!suits(n, next_wanted(job)))
        fail(job, fmt::format("node {} has {} GPUs, not {}", n, cluster_.machine(n).gpus, next_wanted(job)));
      take(job, n);
    }
  }

  void take_next(std::size_t job) {
    for (NodeId n = 0; n < cluster_.node_count(); ++n)
      if (free_[static_cast<std::size_t>(n)] && suits(n, next_wanted(job))) return take(job, n);
    std::size_t all = 0;
    for (const auto& w : wanted_) all += w.size();
    fail(job, fmt::format("no node with {} GPUs is left: the jobs want {} nodes, of {}", next_wanted(job), all,
                          cluster_.node_count()));
  }

  const Cluster& cluster_;
  const std::vector<TogetherAsked>& jobs_;
  std::vector<std::vector<int>> wanted_;  // GPUs of each node, by job.
  std::vector<std::vector<NodeId>> taken_;
  std::vector<bool> free_;
};

/// A job on its devices of the shared cluster. Not movable: prices refer to the session.
struct Placed {
  explicit Placed(Session opened)
      : session(std::move(opened)), program(session.lowered()), cost(session.cost_model()) {}
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

  Session session;
  Program program;
  CostModel cost;
};

/// The job's scenario on the first GPUs of its nodes.
Session placed_session(const TogetherAsked& job, const ClusterRef& reference, const Cluster& cluster,
                       const std::vector<NodeId>& nodes, const std::vector<int>& wanted,
                       const std::filesystem::path& data) {
  Scenario scenario = job.scenario;
  scenario.cluster = reference;
  SessionOptions opening;
  opening.data = data;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (int g = 0; g < wanted[i]; ++g) opening.devices.push_back(cluster.first_device(nodes[i]) + g);
  return open_session(std::move(scenario), opening);
}

void require_fit(const Placed& placed, const TogetherAsked& job) {
  const MemoryAnswer answer = memory(placed.session, placed.program, false);
  if (answer.fits()) return;
  throw Error(ErrorKind::infeasible,
              fmt::format("needs {} where a GPU has {}", to_string(answer.memory.tightest().needed),
                          to_string(answer.memory.tightest().capacity)),
              job.name, "--despite-memory plays it all the same");
}

void refuse(const std::vector<RunResult>& runs) {
  for (const RunResult& run : runs)
    if (!run.breaches.empty())
      throw Error(ErrorKind::check_failed,
                  fmt::format("the result breaks physics and is not shown: {}: {}", run.breaches.front().rule,
                              run.breaches.front().detail),
                  run.backend, "please report it with the scenarios that show it");
}

std::string placement_words(const std::vector<TogetherAsked>& jobs, NodeDeal deal) {
  if (std::none_of(jobs.begin(), jobs.end(), [](const TogetherAsked& j) { return j.nodes.empty(); }))
    return "as stated";
  return deal == NodeDeal::interleaved ? "dealt in turn" : "one job after another";
}

RunOptions run_options(const TogetherOptions& options) {
  RunOptions out;
  out.steps = options.steps;
  out.progress = options.progress;
  return out;
}

std::vector<RunResult> played_alone(const Cluster& cluster, const std::deque<Placed>& placed,
                                    const TogetherOptions& options, const std::string& backend) {
  std::vector<RunResult> out;
  const RunOptions run = run_options(options);
  for (const Placed& p : placed) {
    Trace nothing{std::vector<int>{}};
    out.push_back(backends().at(backend).value()->run(p.program, cluster, p.cost, run, nothing));
  }
  refuse(out);
  return out;
}

/// By job: whether it crosses a link that another one crosses.
std::vector<bool> meets_others(const std::vector<RunResult>& alone) {
  std::vector<int> users;
  for (const RunResult& run : alone) {
    users.resize(std::max(users.size(), run.link_bytes.size()));
    for (std::size_t l = 0; l < run.link_bytes.size(); ++l) users[l] += run.link_bytes[l] > 0 ? 1 : 0;
  }
  std::vector<bool> out;
  for (const RunResult& run : alone) {
    bool meets = false;
    for (std::size_t l = 0; l < run.link_bytes.size(); ++l) meets = meets || (run.link_bytes[l] > 0 && users[l] > 1);
    out.push_back(meets);
  }
  return out;
}

std::vector<RunResult> played_together(const Cluster& cluster, const std::deque<Placed>& placed,
                                       const std::vector<TogetherAsked>& jobs, const TogetherOptions& options,
                                       const std::string& backend, const std::vector<RunResult>& alone) {
  const RunOptions run = run_options(options);
  const std::vector<bool> meets = meets_others(alone);
  Trace nothing{std::vector<int>{}};
  std::vector<PlayedProgram> programs;
  for (std::size_t j = 0; j < jobs.size(); ++j)
    programs.push_back({placed[j].program, placed[j].cost, run, nothing, jobs[j].begin, meets[j]});
  std::vector<RunResult> out = backends().at(backend).value()->run_together(cluster, programs);
  refuse(out);
  return out;
}

/// By link, of jobs that ran alone: what it carried over what it could have.
std::vector<SharedLink> shared_links(const Cluster& cluster, const std::vector<RunResult>& alone) {
  std::vector<SharedLink> out;
  for (LinkId l = 0; l < cluster.link_count(); ++l) {
    SharedLink link{{}, cluster.link_rate(l), {}};
    int users = 0;
    for (const RunResult& run : alone) {
      const double bytes = run.link_bytes.empty() ? 0.0 : nth(run.link_bytes, l);
      users += bytes > 0 ? 1 : 0;
      link.asked.push_back(bytes / (link.rate.value() * run.link_time.value()));
    }
    if (users < 2) continue;
    link.name = cluster.link(l).name;
    out.push_back(std::move(link));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const SharedLink& a, const SharedLink& b) { return a.all_asked() > b.all_asked(); });
  return out;
}

Seconds sum(const std::vector<Seconds>& times) { return std::accumulate(times.begin(), times.end(), Seconds{}); }

/// Share of [begin, end) of one during which another runs.
double accompanied(const std::vector<TogetherJob>& jobs, std::size_t self) {
  const double begin = jobs[self].begin.value(), end = begin + sum(jobs[self].beside).value();
  std::vector<std::pair<double, double>> others;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (i != self) others.emplace_back(jobs[i].begin.value(), jobs[i].begin.value() + sum(jobs[i].beside).value());
  std::sort(others.begin(), others.end());
  double covered = 0, reached = begin;
  for (const auto& [from, to] : others) {
    const double first = std::max(from, reached), last = std::min(to, end);
    if (last <= first) continue;
    covered += last - first;
    reached = last;
  }
  return covered / (end - begin);
}

}  // namespace

TogetherReport simulate_together(const std::vector<TogetherAsked>& jobs, const TogetherOptions& options) {
  if (jobs.empty()) throw Error(ErrorKind::usage, "no jobs to play together", "--together", "name scenarios");
  if (options.steps < 1) throw Error(ErrorKind::usage, "steps are counted from 1", "--steps", "");
  for (const TogetherAsked& job : jobs)
    if (!(job.begin >= Seconds{})) throw Error(ErrorKind::usage, "a job begins at 0 or later", job.name, "");
  const std::string backend = known_backend(options.backend);
  const Catalogue catalogue(data_in(options.data).topologies());
  const ClusterRef reference = options.reference         ? *options.reference
                               : options.cluster.empty() ? common_cluster(jobs)
                                                         : named_reference(catalogue, options.cluster);
  Scenario of_all = jobs.front().scenario;
  of_all.cluster = reference;
  const Cluster cluster = scenario_cluster(catalogue, of_all);
  std::vector<std::vector<int>> wanted;
  wanted.reserve(jobs.size());
  for (const TogetherAsked& job : jobs) wanted.push_back(wanted_nodes(catalogue, job));
  const auto nodes = Deal(cluster, jobs, wanted).dealt(options.deal);

  std::deque<Placed> placed;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    placed.emplace_back(placed_session(jobs[j], reference, cluster, nodes[j], wanted[j], options.data));
    if (!options.despite_memory) require_fit(placed.back(), jobs[j]);
  }
  const std::vector<RunResult> alone = played_alone(cluster, placed, options, backend);
  const std::vector<SharedLink> links = shared_links(cluster, alone);
  const std::vector<RunResult> beside = played_together(cluster, placed, jobs, options, backend, alone);

  TogetherReport out{
      rehearse_version(),
      fmt::format("{} ({} nodes, {} GPUs)", cluster.name(), cluster.node_count(), cluster.device_count()),
      placement_words(jobs, options.deal),
      backend,
      options.steps,
      {},
      links};
  for (std::size_t j = 0; j < jobs.size(); ++j)
    out.jobs.push_back({jobs[j].name, placed[j].session.head(placed[j].program).plan, nodes[j], jobs[j].begin,
                        alone[j].step_times, beside[j].step_times});
  for (std::size_t j = 0; j < jobs.size(); ++j) out.jobs[j].accompanied = accompanied(out.jobs, j);
  return out;
}

}  // namespace rehearse
