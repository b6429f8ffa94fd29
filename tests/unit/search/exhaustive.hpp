#pragma once
// Every plan of a small space, in every order of its axes, played.

#include <algorithm>

#include "tests/unit/search/jobs.hpp"

namespace rehearse::test {

struct Exhausted {
  int played = 0;
  Seconds best{1e30};
  double least_ratio = 1e30;  ///< Of a played step to its closed form,
  double most_ratio = 0;
};

inline Exhausted exhaustive(const SearchProblem& problem, const SearchOptions& options) {
  Space space(problem.workload, problem.own, problem.devices, options.fixed);
  space.enumerate();
  Exhausted out;
  for (const Space::Plan& plan : space.plans())
    for (const auto& order : space.placements(plan)) {
      StrategySettings s = space.settings(plan);
      s.placement = order;
      Evaluation e = evaluate(problem, s, options.most_memory);
      if (!e.fits) continue;
      play(problem, s, options.backend, e);
      if (!e.played) continue;
      ++out.played;
      out.best = std::min(out.best, *e.played);
      out.least_ratio = std::min(out.least_ratio, *e.played / e.step_time);
      out.most_ratio = std::max(out.most_ratio, *e.played / e.step_time);
    }
  return out;
}

}  // namespace rehearse::test
