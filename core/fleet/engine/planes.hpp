#pragma once
// Quotas by pool: where queues state theirs for each pool (Kueue's flavors, KAI's and Run:ai's node pools), each pool
// has a tree of queues and a quota of its own, a *plane*. Else one plane holds all pools.

#include <memory>
#include <string>
#include <vector>

#include "core/fleet/quota.hpp"

namespace rehearse::fleet {

class Planes {
 public:
  /// `pools`: names, as Machines::pools() has them.
  Planes(const Fleet& fleet, const std::vector<std::string>& pools);

  [[nodiscard]] bool by_pool() const { return planes_.size() > 1; }
  [[nodiscard]] bool same(int pool, int other) const { return nth(plane_of_, pool) == nth(plane_of_, other); }

  // As Quota says them, for a job on nodes of `pool`.
  [[nodiscard]] bool admits(int queue, std::int64_t milli, int pool) const { return of(pool).admits(queue, milli); }
  [[nodiscard]] bool could_ever(int queue, std::int64_t milli, int pool) const {
    return of(pool).could_ever(queue, milli);
  }
  [[nodiscard]] bool may_claim(int queue, std::int64_t milli, int pool) const {
    return of(pool).may_claim(queue, milli);
  }
  [[nodiscard]] bool yields(const JobState& claimant, const JobState& victim, int pool) const {
    return of(pool).yields(claimant, victim);
  }
  [[nodiscard]] bool separates() const { return planes_.front().quota->separates(); }
  [[nodiscard]] double again_after() const { return planes_.front().quota->again_after(); }
  /// Of the plane in which the queue comes first, for a job that may stand in `pools`.
  [[nodiscard]] double rank(int queue, std::int64_t milli, const std::vector<int>& pools) const;
  void look(double now);
  void remember(double seconds);

  /// Of `pools`, those that the queue may use, in its order of preference.
  [[nodiscard]] std::vector<int> usable(int queue, const std::vector<int>& pools) const;

  void use(int queue, const Amounts& amounts, int pool) { nth(planes_, nth(plane_of_, pool)).tree.use(queue, amounts); }
  void ask(int queue, std::int64_t milli, int pool) { nth(planes_, nth(plane_of_, pool)).tree.ask(queue, milli); }
  /// Thousandths of GPUs that jobs in and below the queue hold, and wait for, over all pools.
  [[nodiscard]] std::int64_t used(int queue) const;
  [[nodiscard]] std::int64_t asked(int queue) const;
  /// Queues, and the cluster as the first.
  [[nodiscard]] std::size_t queues() const { return planes_.front().tree.nodes.size(); }

 private:
  struct Plane {
    QuotaTree tree;
    std::unique_ptr<Quota> quota;
  };
  [[nodiscard]] const Quota& of(int pool) const { return *nth(planes_, nth(plane_of_, pool)).quota; }

  std::vector<Plane> planes_;
  std::vector<int> plane_of_;              ///< By pool.
  std::vector<std::vector<int>> prefers_;  ///< By queue: the pools that it names; empty: all.
};

/// The queues as one pool has them. `pool` is empty where quotas are not by pool.
[[nodiscard]] std::vector<Queue> queues_in(const Fleet& fleet, const std::string& pool);
[[nodiscard]] bool quotas_by_pool(const Fleet& fleet);
/// GPUs, cores and memory of a pool's nodes; of all nodes where `pool` is null.
[[nodiscard]] Amounts capacity_of(const Fleet& fleet, const std::string* pool = nullptr);

}  // namespace rehearse::fleet
