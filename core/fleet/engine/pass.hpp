#pragma once
// One look at the jobs: candidates in the policy's order, and what a rule may do with them.

#include <optional>
#include <queue>
#include <vector>

#include "core/fleet/engine/engine.hpp"

namespace rehearse::fleet {

enum class Tried { started, quota, no_room };

class Pass {
 public:
  explicit Pass(Engine& engine);

  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] double now() const { return engine_.now(); }

  /// The next job that waits, by the quota's rank of its queue and then by the order; null: none is left. The same one
  /// until it is started or set aside.
  [[nodiscard]] JobState* next();
  /// Starts a candidate if quota and room allow, where the quota lets it claim by stopping others' jobs.
  Tried start(JobState& j);
  /// Starts a candidate on what is taken for it already.
  void start_on(JobState& j, Holding held, int gpus);

  /// Sets aside what next() returned: alone; with all of its queue and shape; with all of its queue, or with everything
  /// where the quota does not separate queues.
  void pass_over(JobState& j);
  void set_aside(JobState& j);
  void set_aside_queue(JobState& j);

  /// Room for a candidate now, taken from machines; its queue is not asked. Says why not in why().
  [[nodiscard]] std::optional<Holding> room(JobState& j, int& gpus);

 private:
  struct Cursor {
    OrderKey key;
    int group;
    std::set<std::pair<OrderKey, JobId>>::const_iterator at;
    bool operator>(const Cursor& o) const { return key > o.key; }
  };
  using Heap = std::priority_queue<Cursor, std::vector<Cursor>, std::greater<>>;

  /// Whom a queue's jobs stand in order with: those of the queue, or all where the quota does not separate queues.
  [[nodiscard]] int line_of(int queue) const { return apart_ ? queue : 0; }
  void push(int line, int group, std::set<std::pair<OrderKey, JobId>>::const_iterator at);
  /// Of the candidates that are left, ready or not.
  [[nodiscard]] JobState* first();
  void advance(JobState& j);
  /// Stops others' jobs for a candidate in `pool` and those that share its quotas.
  [[nodiscard]] bool claim(JobState& j, int pool);
  [[nodiscard]] bool shrink_others(JobState& j);
  void note(const JobState& j, Why why);

  Engine& engine_;
  bool apart_;
  std::vector<int> lines_;   ///< With waiting jobs.
  std::vector<Heap> heaps_;  ///< By line.
};

}  // namespace rehearse::fleet
