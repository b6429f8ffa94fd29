#pragma once
// The closed form: one walk over the operations of every kind of rank.
//
// Each operation begins when the last of what it comes after has ended, and a call with the last of its members:
//
//   begin = max(ends of what it comes after, and of the operation before it on its stream),   end = begin + price.
//
// Only kernels are not of one length: those of the first compute stream run slower beside traffic. Of all kernels under
// way the one that would end first ends as foreseen, because every piece of traffic that is not known yet comes after
// some kernel that ends later. So kernels are ended in that order, and all else follows at once: no clock, no queue of
// events. The walk knows no strategy and no schedule. Whatever can be lowered is entries, and inside it.
//
// Wires are each call's own: contention is outside the closed form (core/play, sim).

#include <optional>

#include "core/estimate/walk/rank_kinds.hpp"
#include "core/trace/trace.hpp"

namespace rehearse {

/// One kind of rank in the last of the steps walked.
struct WalkedKind {
  int role = 0;
  int rank = 0;         ///< That stands for all.
  Breakdown breakdown;  ///< Adds up to the step.
};

struct WalkResult {
  Seconds step_time;
  std::vector<WalkedKind> kinds;
  int slowest = 0;  ///< Index into `kinds`.
};

/// Walks `steps` steps, the first of which begins with everything idle; the step time is the last one's. Throws
/// std::logic_error where operations wait for each other. Called again with roles for other numbers of microbatches
/// (StepLowering) it prices nothing that it has priced.
class StepWalk {
 public:
  StepWalk(const Program& program, const CostModel& cost, int steps);
  [[nodiscard]] WalkResult operator()();

 private:
  const Program& program_;
  const CostModel& cost_;
  int steps_;
  CallPrices prices_;
  std::size_t bodies_ = 0;  ///< That `kinds_` knows.
  std::optional<RankKindFinder> kinds_;
};

/// The same, once.
[[nodiscard]] WalkResult walk(const Program& program, const CostModel& cost, int steps);

}  // namespace rehearse
