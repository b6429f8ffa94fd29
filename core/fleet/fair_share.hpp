#pragma once
// Dividing an amount among queues that are guaranteed some of it, as NVIDIA's KAI scheduler and Run:ai do.
//
//   std::vector<ShareClaim> queues{{.deserved = 2, .weight = 1, .request = 6}, {.deserved = 2, .weight = 3, .request =
//   6}}; divide(8, queues);  // shares 3 and 5

#include <limits>
#include <vector>

namespace rehearse::fleet {

/// A queue as the division sees it. Amounts are GPUs (or cores, or bytes).
struct ShareClaim {
  double deserved = 0;  ///< Guaranteed; infinity: all of it.
  double limit = std::numeric_limits<double>::infinity();
  double weight = 0;   ///< Of what is over.
  double request = 0;  ///< What its jobs hold and wait for.
  double usage = 0;    ///< Share of the whole that it had lately, 0..1; counts with `k` alone.
  int priority = 0;    ///< A higher one is served first of what is over.
  double share = 0;    ///< The result.
};

/// Divides `total` and returns what is left. First each gets what it deserves and asks for, even if that is more than
/// there is. Then, priority by priority, what is left goes out in rounds in proportion to max(0, w + k (w - usage)),
/// with w the weight over those of all that still want some; whoever wants no more than its part gets that, others
/// whole units of it. What rounding left goes one unit each, to the largest remainder first; of equals to the first.
/// NVIDIA/KAI-Scheduler @72de64f, pkg/scheduler/plugins/proportion/resource_division.
double divide(double total, std::vector<ShareClaim>& queues, double k = 0);

/// The second part alone: adds to shares that are there.
double divide_over_quota(double total, std::vector<ShareClaim>& queues, double k = 0);

}  // namespace rehearse::fleet
