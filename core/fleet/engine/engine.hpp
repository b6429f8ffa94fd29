#pragma once
// Plays a fleet: events in order of time, and after those of one moment a look at the jobs (pass.hpp).

#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <vector>

#include "core/fleet/engine/placer.hpp"
#include "core/fleet/engine/planes.hpp"
#include "core/fleet/engine/waiting.hpp"
#include "core/fleet/result.hpp"
#include "core/fleet/rule.hpp"

namespace rehearse::fleet {

enum class Stop { finished, preempted, failed, resized };

class Engine {
 public:
  Engine(const Fleet& fleet, const RunOptions& options);
  FleetResult run();

  // For passes and rules.
  [[nodiscard]] double now() const { return now_; }
  [[nodiscard]] Machines& machines() { return machines_; }
  [[nodiscard]] Placer& placer() { return placer_; }
  [[nodiscard]] const Planes& quota() const { return planes_; }
  [[nodiscard]] const Order& order() const { return *order_; }
  [[nodiscard]] Waiting& waiting() { return waiting_; }
  [[nodiscard]] JobState& job(JobId id) { return nth(states_, id); }
  [[nodiscard]] const std::vector<JobId>& running() const { return running_; }
  /// Whether an elastic job runs: else nobody could shrink or grow.
  [[nodiscard]] bool elastic_runs() const { return elastic_running_ > 0; }
  [[nodiscard]] std::int64_t releases() const { return releases_; }
  [[nodiscard]] const Shape& shape(const JobState& j) const { return nth(placer_.shapes(), j.shape); }
  [[nodiscard]] int pool_of(const Holding& held) const { return placer_.pool_of(held, machines_); }
  /// Pools where a job may stand by what it and its queue say, in order of preference.
  [[nodiscard]] const std::vector<int>& pools_of(const JobState& j) const { return nth(pools_, j.id); }
  /// Of them, those where the quota lets it start with `milli` now.
  [[nodiscard]] std::vector<int> open_pools(const JobState& j, std::int64_t milli) const;
  [[nodiscard]] bool admits(const JobState& j, std::int64_t milli) const;
  /// Whether it may go on with what it holds, if it holds it no more.
  [[nodiscard]] bool admits_again(const JobState& j) const { return planes_.admits(j.queue, j.milli, pool_of(j.held)); }
  /// Counts what a job of `queue` holds or would hold against quotas; no more of it.
  void count_in(int queue, const Holding& held) { planes_.use(queue, amounts_of(held), pool_of(held)); }
  void count_out(int queue, const Holding& held) { planes_.use(queue, -amounts_of(held), pool_of(held)); }
  void count(int queue, const Amounts& amounts, int pool) { planes_.use(queue, amounts, pool); }
  /// Free thousandths of GPUs in that of its pools that has most.
  [[nodiscard]] std::int64_t most_free(const JobState& j) const;
  [[nodiscard]] OrderKey key(const JobState& j) const { return order_->key(j, now_); }
  /// When a running job ends by what its owner said; not before now.
  [[nodiscard]] double expected_end(const JobState& j) const;
  /// Of running jobs, by expected_end(); of equal ones by arrival.
  [[nodiscard]] bool ends_before(const JobState& a, const JobState& b) const;
  /// How long a waiting job will run by what its owner said.
  [[nodiscard]] double expected_time(const JobState& j) const;
  /// Whether it may be stopped: it is preemptible, and its restart and its first checkpoint are behind it, and it
  /// worked as long as it took to start, so that a job that is stopped again and again still gets on.
  [[nodiscard]] bool stoppable(const JobState& j) const;
  [[nodiscard]] double safe_from(const JobState& j) const;  ///< When it is, if it is preemptible.

  /// A waiting job takes what `held` says, which is taken from machines() already.
  void start(JobState& j, Holding held, int gpus);
  /// A running job gives back what it holds; `given`: it is given back to machines() and the tree already.
  void stop(JobState& j, Stop why, bool given = false);
  /// A running job goes on with other GPUs, which are taken already.
  void resize(JobState& j, Holding held, int gpus);
  /// Without a word to anybody: a running job's GPUs are free, or taken again. For trials.
  void lift(JobState& j);
  void put_back(JobState& j);

 private:
  enum class Kind { finish, up, down, arrival, change, look };
  struct Event {
    double time;
    Kind kind;
    int id;
    std::uint32_t epoch;
    bool operator>(const Event& o) const { return std::tie(time, kind, id) > std::tie(o.time, o.kind, o.id); }
  };

  void set_up_jobs();
  void set_up_failures();
  void push_failure(int node);
  void push(double time, Kind kind, int id = 0, std::uint32_t epoch = 0) { events_.push({time, kind, id, epoch}); }
  void advance(double to);
  void handle(const Event& e);
  void node_down(int node);
  void look();
  void weigh();
  [[nodiscard]] bool round_begins() const;
  void expect_round();
  void classify();
  void bring_up_to_date(JobState& j);
  void schedule_end(JobState& j);
  void end_stay(JobState& j);
  void wait(JobState& j);
  void settle();
  [[nodiscard]] double speed_of(const JobState& j, int gpus, const Holding& held) const;
  void sample();
  [[nodiscard]] bool told_to_stop();
  FleetResult finish();

  const Fleet& fleet_;
  const RunOptions& options_;
  Machines machines_;
  std::unique_ptr<Order> order_;
  std::unique_ptr<Rule> rule_;
  Placer placer_;
  Planes planes_;
  std::vector<std::vector<int>> pools_;  ///< Of each job.
  std::vector<JobState> states_;
  std::vector<JobId> running_;
  std::vector<int> slot_;  ///< Where a running job stands in running_.
  Waiting waiting_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
  std::int64_t releases_ = 0;
  int elastic_running_ = 0;
  JobId released_ = -1;  ///< Whose GPUs came free last.
  double next_look_ = kNever;
  double next_round_ = kNever;
  std::int64_t coming_ = 0;  ///< Events that are not looks.
  int ended_ = 0;
  std::array<double, kWhys> wanted_{};  ///< Thousandths of GPUs that waiting jobs ask for, by why.
  std::vector<std::pair<OrderKey, JobState*>> started_, stopped_;  ///< In this look.
  std::vector<std::mt19937_64> failure_draws_;
  bool nodes_break_ = false;       ///< Some, at random.
  std::vector<int> outages_open_;  ///< Of each node: reasons why it is down.
  FleetResult result_;
};

}  // namespace rehearse::fleet
