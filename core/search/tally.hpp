#pragma once
// What is known of the plans of a space too large to be listed: how many there are, and how many of them cannot be
// among the best because their kernels alone take longer.
//
//   step >= m w / p      w: kernels of one microbatch through all layers, and the communication that they wait for, on
//                        the ranks that divide a layer (PassCosts, with the margins of bounds.hpp); m microbatches, p
//                        stages: the slowest stage does no less than the mean of them, whatever the schedule
//
// Without the communication, and without margins, this holds by construction (bounds.hpp): what that excludes is
// counted as proven.
//
// w is worked out once for all plans that divide layers and samples alike, those of most plans first, while there is
// time.

#include <cstdint>
#include <vector>

#include "core/search/bounds/plan_bounds.hpp"
#include "core/search/search.hpp"

namespace rehearse {

struct Tally {
  std::uint64_t plans = 0;    ///< Legal ones.
  std::uint64_t bounded = 0;  ///< Of those that nobody priced, the ones that cannot be among the best.
  std::uint64_t left = 0;     ///< And the others.
  std::uint64_t proven = 0;   ///< Of `bounded`, those whose bound has no margin (Bound::proven).
  Seconds least_left;         ///< The least of the bounds of these; 0: some have none, not even step_at_peak.
};

/// `space` is enumerated. `limit`: what a plan must be below, in seconds. `priced`: plans, each once, that have been
/// worked out. Parts of a divided search (`options.shard`) have their share of all counts.
[[nodiscard]] Tally tally(const SearchProblem& problem, const SearchOptions& options, const Space& space, double limit,
                          const std::vector<Space::Plan>& priced, const Tell& tell);

}  // namespace rehearse
