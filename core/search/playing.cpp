#include "core/search/playing.hpp"

#include <algorithm>
#include <limits>

namespace rehearse {

namespace {

/// Playing takes as long as there are devices: so many take about the same time on any cluster.
std::size_t most_played(const SearchProblem& problem, const SearchOptions& options) {
  return static_cast<std::size_t>(options.most_played >= 0 ? options.most_played : std::clamp(32'768 / std::max(1, problem.devices), 4, 64));
}

bool stopped(const SearchOptions& options) { return options.stop && options.stop(); }

/// In order of the closed form: those that are shown, and more while one may still be faster than the best played. What then is left unplayed for
/// want of room is counted.
void play_in_order(const SearchProblem& problem, const SearchOptions& options, SearchResult& result) {
  Seconds best{std::numeric_limits<double>::infinity()};
  std::vector<Found>& found = result.best;
  const std::size_t most = std::min(found.size(), most_played(problem, options));
  const auto may_be_best = [&](const Found& f) { return f.evaluation.step_time * kPlayedBelow <= best; };
  for (std::size_t i = 0; i < most && !stopped(options); ++i) {
    Evaluation& e = found[i].evaluation;
    if (i >= static_cast<std::size_t>(options.top) && !may_be_best(found[i])) break;
    play(problem, found[i].settings, options.backend, e, options.stop);
    ++result.played;
    if (e.played) best = std::min(best, *e.played);
    if (options.progress) options.progress({"playing the best", static_cast<double>(i + 1), static_cast<double>(most), best});
  }
  for (const Found& f : found) result.unplayed += f.evaluation.fits && !f.evaluation.played && may_be_best(f);
  std::erase_if(found, [](const Found& f) { return !f.evaluation.fits; });
}

}  // namespace

std::size_t kept_plans(const SearchProblem& problem, const SearchOptions& options) { return std::max(static_cast<std::size_t>(options.top), most_played(problem, options)); }

void play_best(const SearchProblem& problem, const SearchOptions& options, bool own_is_a_plan, SearchResult& result) {
  rank(result.best, options.objective);
  if (own_is_a_plan) {
    Found own{problem.own, evaluate(problem, problem.own, options.most_memory), 0};
    if (own.evaluation.refusal.empty()) result.own = std::move(own);
  }
  if (!options.backend.empty()) {
    play_in_order(problem, options, result);
    if (result.own && result.own->evaluation.fits && !stopped(options)) {
      play(problem, result.own->settings, options.backend, result.own->evaluation, options.stop);
      ++result.played;
    }
    rank(result.best, options.objective);
  }
  result.interrupted = result.interrupted || stopped(options);
  for (Found& f : result.front)
    for (const Found& b : result.best)
      if (b.order == f.order) f.evaluation = b.evaluation;
}

}  // namespace rehearse
