#pragma once
// What to change so that a queue waits less.
//
//   const AdviceAnswer a = advise(fleet, "research", Seconds{7200});
//   if (!a.changes.empty()) ... a.changes.front().what ...            // "rule easy"

#include <functional>
#include <string>
#include <vector>

#include "core/fleet/result.hpp"

namespace rehearse::fleet {

/// One change of the fleet, and what it does.
struct Advice {
  std::string what;               ///< "rule easy", "guarantee research 40 GPUs", "2 more nodes".
  std::vector<std::string> sets;  ///< The same for --set; empty where no key says it.
  double gpus = 0;                ///< Guaranteed or bought on top; 0 for a policy.
  Seconds wait{};                 ///< 90th percentile of the queue's waits then.
  bool enough = false;            ///< `wait` is within the bound.
  /// Of the other queues, the one whose 90th percentile rises most, and by how much; empty where none rises.
  std::string pays{};
  Seconds rise{};
};

struct AdviceAnswer {
  Seconds wait{};               ///< As the fleet is.
  std::vector<Advice> changes;  ///< Enough ones first: policies, of them those for which others pay least,
                                ///< then guarantees, then GPUs.
  int plays = 0;
};

/// Plays single changes: each other rule, order and quota; the least guarantee of the queue that is enough, of what no
/// queue is guaranteed; the fewest nodes more (as the last one) that are enough, up to twice as many as there are.
/// `queue` is a leaf. Throws Error (usage) for one that is not there, and as run_fleet does.
[[nodiscard]] AdviceAnswer advise(const Fleet& fleet, const std::string& queue, Seconds bound,
                                  const RunOptions& options = {});

}  // namespace rehearse::fleet
