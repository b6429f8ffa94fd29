#include "core/estimate/estimate_lane.hpp"

#include <algorithm>
#include <limits>

namespace rehearse {

double StageLane::run(double at, double work) const {
  while (work > 0) {
    Interference load;
    double until = std::numeric_limits<double>::infinity();
    for (const Busy& b : traffic) {
      if (b.end <= at) continue;
      if (b.begin > at) {
        until = std::min(until, b.begin);
        continue;
      }
      load.sm_share += b.load.sm_share;
      load.hbm_share += b.load.hbm_share;
      until = std::min(until, b.end);
    }
    const double rate = overlap_rate(sm_sensitivity, hbm_sensitivity, load);
    if ((until - at) * rate >= work) return at + work / rate;
    work -= (until - at) * rate;
    at = until;
  }
  return at;
}

void StageLane::compute(const ComputeWork& work, double seconds) {
  sm_sensitivity = work.sm_sensitivity;
  hbm_sensitivity = work.hbm_sensitivity;
  trailing = work.trailing < work.seconds ? work.trailing : trailing + seconds;
  const double end = run(free, seconds + debt);
  waits[TimeCategory::overlap_slowdown] += Seconds{end - free - seconds};
  debt = 0;
  free = end;
}

void StageLane::wait_for(double until, double moving, TimeCategory cause) {
  const double gap = until - free;
  if (gap <= 0) return;
  const double exposed = std::clamp(moving, 0.0, gap);
  waits[cause] += Seconds{exposed};
  waits[TimeCategory::bubble] += Seconds{gap - exposed};
  debt = std::max(0.0, debt - (until - free));
  free = until;
}

void StageLane::wait_beside(double until, TimeCategory first, TimeCategory last) {
  double gap = until - free;
  if (gap <= 0) return;
  for (const Busy& b : traffic) {
    if (b.category < first || b.category > last) continue;
    const double beside = std::clamp(std::min(b.end, until) - std::max(b.begin, free), 0.0, gap);
    waits[b.category] += Seconds{beside};
    gap -= beside;
  }
  waits[TimeCategory::bubble] += Seconds{gap};
  debt = std::max(0.0, debt - (until - free));
  free = until;
}

void StageLane::prune() {
  std::erase_if(traffic, [this](const Busy& b) { return b.end <= free; });
}

void StageLane::add(const Busy& busy) {
  if (busy.end <= busy.begin) return;
  const double past = std::min(busy.end, free) - busy.begin;
  if (past > 0) debt += past * (1.0 - overlap_rate(sm_sensitivity, hbm_sensitivity, busy.load));
  if (busy.end > free) traffic.push_back({std::max(busy.begin, free), busy.end, busy.load, busy.category});
}

}  // namespace rehearse
