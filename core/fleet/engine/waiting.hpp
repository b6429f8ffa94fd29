#pragma once
// Jobs that wait, grouped: jobs of one queue and one shape can or cannot start alike, and so can those of one shape
// where nothing depends on the queue. Only the first of a group is tried, and a look at thousands of jobs costs as much
// as a look at their kinds.

#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/fleet/order.hpp"

namespace rehearse::fleet {

struct WaitingGroup {
  int queue = 0;  ///< 0 where it is of all queues.
  std::set<std::pair<OrderKey, JobId>> jobs;
  std::int64_t milli = 0;              ///< Asked for by all its jobs, at least.
  Why why = Why::busy;                 ///< Why they wait, as of the last look.
  bool looked = false;                 ///< `why` was found in the present look.
  double since = 0;                    ///< When `waited` was brought up to date.
  std::array<double, kWhys> waited{};  ///< Seconds, by why, since the fleet began.
  std::int64_t no_room_at = -1;        ///< Number of the last release of GPUs when its first job had no room.

  void until(double now) {
    if (!jobs.empty()) nth(waited, why) += now - since;
    since = now;
  }
};

class Waiting {
 public:
  /// `by_queue`: whether a job may start depends on its queue.
  explicit Waiting(bool by_queue) : by_queue_(by_queue) {}

  /// Group of a job; made when it is first asked for.
  [[nodiscard]] int group_of(const JobState& job) {
    const int queue = by_queue_ ? job.queue : 0;
    const auto [at, fresh] = index_.try_emplace({queue, job.shape}, static_cast<int>(groups_.size()));
    if (fresh) {
      groups_.push_back({});
      groups_.back().queue = queue;
    }
    return at->second;
  }
  [[nodiscard]] WaitingGroup& operator[](int group) { return nth(groups_, group); }
  [[nodiscard]] std::vector<WaitingGroup>& groups() { return groups_; }
  [[nodiscard]] int count() const { return count_; }

  void add(JobState& job, const OrderKey& key, std::int64_t milli, double now) {
    WaitingGroup& g = (*this)[group_of(job)];
    g.until(now);
    g.jobs.emplace(key, job.id);
    g.milli += milli;
    job.waits_at_entry = g.waited;
    ++count_;
  }
  /// Removes a job and returns how long it waited, by why.
  std::array<double, kWhys> remove(const JobState& job, const OrderKey& key, std::int64_t milli, double now) {
    WaitingGroup& g = (*this)[group_of(job)];
    g.until(now);
    g.jobs.erase({key, job.id});
    g.milli -= milli;
    --count_;
    std::array<double, kWhys> out = g.waited;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] -= job.waits_at_entry[i];
    return out;
  }

  /// Sorts all jobs anew, by `key` of each.
  template <class Key>
  void sort_anew(Key key) {
    for (WaitingGroup& g : groups_) {
      std::set<std::pair<OrderKey, JobId>> sorted;
      for (const auto& [old, id] : g.jobs) sorted.emplace(key(id), id);
      g.jobs = std::move(sorted);
    }
  }

 private:
  bool by_queue_;
  std::vector<WaitingGroup> groups_;
  std::map<std::pair<int, int>, int> index_;
  int count_ = 0;
};

}  // namespace rehearse::fleet
