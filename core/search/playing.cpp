#include "core/search/playing.hpp"

#include <algorithm>
#include <limits>

#include "core/base/stop.hpp"

namespace rehearse {

namespace {

/// Playing takes as long as there are devices: so many take about the same time on any cluster.
std::size_t most_played(const SearchProblem& problem, const SearchOptions& options) {
  return static_cast<std::size_t>(options.most_played >= 0 ? options.most_played
                                                           : std::clamp(32'768 / std::max(1, problem.devices), 4, 512));
}

}  // namespace

void play_in_order(const SearchProblem& problem, const SearchOptions& options, SearchResult& result) {
  Seconds best{std::numeric_limits<double>::infinity()};
  const auto may_be_best = [&](const Found& f) { return f.evaluation.step_time * kPlayedBelow <= best; };
  const std::size_t most = most_played(problem, options);
  std::size_t played = 0, place = 0;
  for (Found& f : result.best) {
    const bool shown = place++ < static_cast<std::size_t>(options.top);
    if (!f.evaluation.played) {
      if (played >= most || options.stopped() || (played > 0 && options.late(kPlayedShare)) ||
          (!shown && !may_be_best(f)))
        break;
      play(problem, f.settings, options.backend, f.evaluation, options.ended(kPlayedShare));
      result.played += f.evaluation.played.has_value();
    }
    ++played;
    if (f.evaluation.played) best = std::min(best, *f.evaluation.played);
    if (options.progress)
      options.progress({"playing the best", static_cast<double>(played),
                        static_cast<double>(std::min(most, result.best.size())), best});
  }
  result.unplayed = 0;
  for (const Found& f : result.best) result.unplayed += f.evaluation.fits && !f.evaluation.played && may_be_best(f);
  std::erase_if(result.best, [](const Found& f) { return !f.evaluation.fits; });
}

Bytes capacity_of(const SearchProblem& problem, const SearchOptions& options) {
  Bytes out{std::numeric_limits<double>::max()};
  for (const Cluster::Part& part : problem.cluster.parts()) out = std::min(out, part.gpu->memory);
  return options.most_memory > Bytes{0} ? std::min(out, options.most_memory) : out;
}

std::size_t kept_plans(const SearchProblem& problem, const SearchOptions& options) {
  return std::max(static_cast<std::size_t>(options.top), most_played(problem, options));
}

void play_best(const SearchProblem& problem, const SearchOptions& options, bool own_is_a_plan, SearchResult& result) {
  rank(result.best, options.objective);
  if (own_is_a_plan) {
    // It stands beside what was found, also where the search was ended: one plan is soon worked out.
    const StopScope to_its_end({});
    Found own{problem.own, evaluate(problem, problem.own, options.most_memory), 0};
    if (own.evaluation.refusal.empty()) result.own = std::move(own);
  }
  if (!options.backend.empty()) {
    play_in_order(problem, options, result);
    if (result.own && result.own->evaluation.fits && !options.stopped()) {
      play(problem, result.own->settings, options.backend, result.own->evaluation, options.ended(kPlayedShare));
      result.played += result.own->evaluation.played.has_value();
    }
    rank(result.best, options.objective);
  }
  result.interrupted = result.interrupted || options.stopped();
  for (Found& f : result.front)
    for (const Found& b : result.best)
      if (b.order == f.order) f.evaluation = b.evaluation;
}

}  // namespace rehearse
