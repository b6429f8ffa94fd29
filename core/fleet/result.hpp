#pragma once
// What a fleet did: for each job when it waited, ran and why; for each queue what it held; where the GPU-hours went.

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/fleet/fleet.hpp"

namespace rehearse::fleet {

/// Why a job waits.
enum class Why {
  order,      ///< GPUs are free that it could take, and the policy keeps them for a job before it.
  quota,      ///< Enough GPUs are free, and its queue, or one above it, has all that it may have.
  fragments,  ///< Enough GPUs are free, but not where its pods could stand.
  busy,       ///< Fewer GPUs are free than it asks for.
};
inline constexpr int kWhys = 4;
/// "order", "quota", "fragments", "busy".
[[nodiscard]] const std::array<std::string, kWhys>& why_names();

enum class JobEnd { done, running, waiting, not_arrived };

struct JobResult {
  JobEnd end = JobEnd::not_arrived;
  Seconds started{-1};                  ///< First start; -1: never.
  Seconds finished{-1};                 ///< -1: not by the end of what was played.
  Seconds waiting{};                    ///< From arrival, all times together.
  Seconds running{};                    ///< Holding GPUs.
  std::array<Seconds, kWhys> waited{};  ///< `waiting`, by why.
  int preemptions = 0;                  ///< By the policy.
  int failures = 0;                     ///< Stopped because a node went away.
  int resizes = 0;
  int after = -1;          ///< Index of the job whose GPUs came free when it first started; -1: it didn't wait for one.
  double gpu_seconds = 0;  ///< Held.
  double lost_gpu_seconds = 0;  ///< Of it, work that was done again.
  double idle_gpu_seconds = 0;  ///< Of it, restarts, resizes and checkpoints.

  [[nodiscard]] Seconds completion(Seconds arrival) const { return finished - arrival; }
};

/// GPU-seconds of the whole time, each counted once. The sum of all is `capacity`.
struct Account {
  double capacity = 0;
  double useful = 0;    ///< Work that counts.
  double lost = 0;      ///< Work that was done again after an interruption.
  double restarts = 0;  ///< Held by jobs that start again, change their size or write a checkpoint.
  double down = 0;      ///< Nodes that were away.
  /// Free while a job waits that wanted them, by why it waits. `busy` is what is free beside a job that needs more.
  std::array<double, kWhys> waited_for{};
  double unwanted = 0;  ///< Free, and nobody waited.

  [[nodiscard]] double total() const;
};

/// From `begin` to `end` the queue holds `held` GPUs and its jobs ask for `asked` more.
struct QueueSample {
  Seconds begin;
  double held, asked;
};

struct QueueResult {
  double gpu_seconds = 0;        ///< Held.
  double asked_gpu_seconds = 0;  ///< Held or waited for.
  std::vector<QueueSample> samples;
};

/// GPUs of one node that a job held.
struct Held {
  int node;
  int gpus;
};
/// A job on its nodes, from a start or resize to the next stop or resize.
struct Stay {
  int job;
  Seconds begin, end;
  std::vector<Held> held;
};

struct FleetResult {
  std::vector<JobResult> jobs;      ///< As in Fleet::jobs.
  std::vector<QueueResult> queues;  ///< As in Fleet::queues.
  std::vector<Stay> stays;          ///< In order of their end; where RunOptions::record asks.
  Account account;
  Seconds begin{}, end{};  ///< First arrival; last moment played.
  std::int64_t events = 0;
  std::int64_t passes = 0;  ///< Times at which the scheduler looked at the jobs.
};

struct RunOptions {
  bool record = true;                            ///< Keep `stays` and the queues' samples.
  std::function<void(double share)> progress{};  ///< Told now and then how many of the jobs have ended, 0..1.
  std::function<bool()> stop{};                  ///< Asked as often; true ends the run where it is.
};

/// Plays the fleet from its first arrival until all jobs have ended, or until Fleet::until.
/// Throws Error: usage for what check_fleet refuses; check_failed where the result's own sums do not add up.
[[nodiscard]] FleetResult run_fleet(const Fleet& fleet, const RunOptions& options = {});

/// Throws Error (usage) for names that are used twice or are unknown, negative times and amounts, queues in a circle,
/// guarantees beyond the cluster, and jobs that could never run, each with its place in the file.
void check_fleet(const Fleet& fleet);

}  // namespace rehearse::fleet
