#pragma once
// The compute stream of one stage beside the traffic of its device: kernels advance at the overlap rule's rate.

#include <vector>

#include "core/estimate/estimate_prices.hpp"

namespace rehearse {

/// Traffic on one device from `begin` to `end`.
struct Busy {
  double begin, end;
  Interference load;
  TimeCategory category;
};

/// One stage's clock and books. All times in seconds from the start of the step.
struct StageLane {
  double free = 0;  ///< End of the last kernel.
  double held = 0;  ///< No kernel starts before: a blocking message is still leaving.
  double input_done = 0;
  double dp_free = 0;   ///< End of the last call on the gradient stream.
  double debt = 0;      ///< Seconds lost to messages that were found to overlap kernels already played.
  double trailing = 0;  ///< Seconds before `free` in which no collective of the work's own ran.
  double sm_sensitivity = 0, hbm_sensitivity = 0;  ///< Of the kernels played last.
  std::vector<Busy> traffic;
  Breakdown waits;  ///< Exposed communication, bubble and slowdown; kernels are added by the caller.

  /// When `work` seconds that begin at `at` are done.
  [[nodiscard]] double run(double at, double work) const;
  /// Runs `seconds` of kernels like `work` from `free` on, with any debt, and books the slowdown.
  void compute(const ComputeWork& work, double seconds);
  /// The compute stream idles from `free` to `until`: traffic of `categories` counts, the rest is bubble.
  void wait_beside(double until, TimeCategory first, TimeCategory last);
  /// The compute stream idles from `free` to `until`, of which at most `moving` is category `cause`.
  void wait_for(double until, double moving, TimeCategory cause);
  /// Forgets traffic that no kernel can meet any more.
  void prune();
  /// Adds traffic; what overlaps kernels played already becomes debt.
  void add(const Busy& busy);
};

}  // namespace rehearse
