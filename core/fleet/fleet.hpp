#pragma once
// A shared cluster and the jobs that arrive at it: what `rehearse fleet` reads, as plain structs.
//
//   Fleet fleet;
//   fleet.nodes = {{.name = "a", .gpus = 8}, {.name = "b", .gpus = 8}};
//   fleet.jobs = {{.name = "j", .request = {.gpus = 16}, .arrival = Seconds{0}, .duration = Seconds{3600}}};
//   fleet.policy = {.order = "arrival", .rule = "easy"};
//   const FleetResult result = run_fleet(fleet);               // result.hpp
//
// GPUs are counted in thousandths (`kWholeGpu` is one), so that a fraction of a GPU is an exact number.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/units.hpp"

namespace rehearse::fleet {

inline constexpr int kWholeGpu = 1000;  ///< Thousandths of a GPU that make one.
inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// A machine of the cluster.
struct Node {
  std::string name;
  std::string pool{};           ///< Quotas may count pools apart.
  std::string model{};          ///< Of its GPUs, as jobs ask for it: "a100_sxm_80gb"; empty where nobody asks.
  int gpus = 8;                 ///< 1 or more.
  std::int64_t cpu_milli = 0;   ///< Thousandths of CPU cores for jobs; 0: not counted, for any job.
  std::int64_t memory_mib = 0;  ///< Host memory for jobs, MiB; 0: not counted.
  std::string machine{};        ///< Of the catalogue, or a file; empty where it was counted in GPUs alone.
  /// Mean time until it breaks; infinite: as Failures::mtbf says.
  Seconds mtbf{std::numeric_limits<double>::infinity()};
  std::string rack{};  ///< Nodes of one rack are near each other: an NVLink domain, a leaf switch.
};

/// What a job asks for. A *pod* is the part of a job that stands in one node.
struct Request {
  int gpus = 1;                ///< All together; of an elastic job the most. 0 only where it asks for CPU cores alone.
  int min_gpus = 0;            ///< Of an elastic job the least; 0: it is not elastic.
  int milli = kWholeGpu;       ///< Of each GPU, 1..1000. Below 1000 only where `gpus` is 1.
  int pod_gpus = 0;            ///< GPUs of one pod; 0: as many as a node of the pool has, and a smaller job is one pod.
  std::int64_t cpu_milli = 0;  ///< Of each pod.
  std::int64_t memory_mib = 0;        ///< Of each pod.
  std::vector<std::string> models{};  ///< GPUs that will do; empty: any.
  std::vector<std::string> pools{};   ///< Pools that will do, in order of preference; empty: all, as they are listed.

  bool operator==(const Request&) const = default;
  [[nodiscard]] bool elastic() const { return min_gpus > 0 && min_gpus < gpus; }
};

/// How long the whole job takes on so many GPUs of a model, alone and undisturbed.
struct Speed {
  int gpus;
  std::string model;  ///< Empty: any.
  Seconds duration;
};

/// A training job by what it trains: how long it takes is worked out for whatever GPUs it may get
/// (core/api/fleet.hpp).
struct ScenarioWork {
  std::string file;                ///< rehearse/scenario/v1. Its cluster does not count.
  std::vector<std::string> set{};  ///< "strategy.tp=2"
  double steps = 0;                ///< 0: as many as training.tokens takes.
};

struct Job {
  std::string name;
  std::string queue{};  ///< Name of a queue; may be empty where there are none.
  int priority = 0;     ///< Higher is more important.
  Request request{};
  Seconds arrival{};
  Seconds duration{};  ///< On `request.gpus`, alone and undisturbed. On fewer, in proportion, unless `speeds` says.
  Seconds estimate{};  ///< What its owner told the scheduler; 0: the duration itself.
  std::vector<Speed> speeds{};
  std::optional<ScenarioWork> work{};  ///< What duration and speeds are worked out from, where they are not stated.
  bool preemptible = true;
  std::string where{};  ///< Place in the file, for errors.
};

/// What a queue may take back of what it lent.
enum class Reclaim { never, lower_priority, any };

/// What a queue may hold in one pool. Amounts are GPUs.
struct PoolQuota {
  std::string pool;
  double guaranteed = 0;
  double limit = kUnlimited;
  double borrow = kUnlimited;
  double lend = kUnlimited;
};

/// A queue, or a group of queues (a cohort, a department). The tree's root is the cluster. Amounts are GPUs.
struct Queue {
  std::string name;
  std::string parent{};            ///< Empty: the cluster.
  double guaranteed = 0;           ///< Its own: what it gets whenever it asks (nominal quota; deserved).
  double limit = kUnlimited;       ///< It never holds more.
  double weight = 1;               ///< Of what nobody is guaranteed, beside the other children of its parent.
  int priority = 0;                ///< Queues of a higher one share what is over first.
  double borrow = kUnlimited;      ///< Most it may take beyond its own.
  double lend = kUnlimited;        ///< Most of its own that others may take.
  Reclaim reclaim = Reclaim::any;  ///< Which jobs of borrowers it preempts to get its own back.
  bool preempts_own = false;       ///< Whether its jobs displace its own jobs of lower priority.
  /// Its amounts by pool, in place of those above, in the order in which its jobs try pools; it has no others. Kueue
  /// calls a pool a flavor.
  std::vector<PoolQuota> pools{};
  std::string where{};
};

/// Over all pools.
[[nodiscard]] inline double guaranteed_of(const Queue& q) {
  double out = q.guaranteed;
  for (const PoolQuota& p : q.pools) out += p.guaranteed;
  return out;
}

/// Names of registered parts (order.hpp, rule.hpp, quota.hpp, placement.hpp) and numbers that they take.
struct Policy {
  std::string order = "arrival";
  std::string rule = "skip";
  std::string quota = "none";
  std::string placement = "best_fit";
  std::map<std::string, double> parameters{};  ///< "attained.limit": times in seconds, amounts in GPUs.
  Seconds interval{0};  ///< The scheduler looks at the jobs at multiples of it alone; 0: whenever something happens.
};

/// What stopping and starting costs: nothing, unless it is said.
struct Interruption {
  Seconds restart{0};     ///< From a start after an interruption until work goes on; GPUs are held meanwhile.
  Seconds checkpoint{0};  ///< Work between two checkpoints: what comes after the last is lost. 0: state is kept at a
                          ///< preemption, and everything since the last start is lost at a failure.
  Seconds resize{0};      ///< As `restart`, when an elastic job gets more or fewer GPUs.
  Seconds start{0};       ///< As `restart`, at the first start: images are pulled, data are read.
  Seconds write{0};       ///< Time in which a checkpoint is written and no work is done.
};

/// A node that is away from `down` until `up`.
struct Outage {
  std::string node;
  Seconds down;
  Seconds up;
};

/// Nodes break at random: exponential times, independent of each other.
struct Failures {
  Seconds mtbf{std::numeric_limits<double>::infinity()};  ///< Of one node.
  Seconds repair{86400};
  std::uint64_t seed = 1;
  /// A profile of topologies/reliability, or "auto" for that of each node's GPUs; Node::mtbf comes from it.
  std::string profile{};
};

struct Fleet {
  std::string name;
  std::string origin{};  ///< Of the file, for errors.
  std::vector<Node> nodes;
  std::string network{};  ///< Between them: of the catalogue or a file; empty: as each scenario says.
  std::vector<Queue> queues;
  std::vector<Job> jobs;  ///< In any order.
  Policy policy;
  Interruption interruption;
  std::vector<Outage> outages;
  Failures failures;
  Seconds until{std::numeric_limits<double>::infinity()};  ///< What happens later is not played.
  std::uint64_t seed = 1;                                  ///< Of placements that draw.
};

}  // namespace rehearse::fleet
