#pragma once
// Which plans a back end plays. Inside core/search only.

#include "core/search/search.hpp"

namespace rehearse {

/// How far a played step may stand below its closed form: it agrees with the analytic back end to a hundredth
/// (test_core_estimate), and shared links, which SimGrid adds, only slow a step down; the rest is reserve.
/// test_core_search holds it on spaces that it plays whole.
inline constexpr double kPlayedBelow = 0.98;

/// Plays result.best in order of the closed form, as far as it was not played: those that are shown, and more while one
/// may still be faster than the best played. What then is left unplayed for want of room is counted. Drops what a back
/// end refuses.
void play_in_order(const SearchProblem& problem, const SearchOptions& options, SearchResult& result);

/// The least memory of any device, or the limit that the user gave where that is less.
[[nodiscard]] Bytes capacity_of(const SearchProblem& problem, const SearchOptions& options);

/// Plans that are told apart to the end: those shown and those that may be played, now or when parts are joined.
[[nodiscard]] std::size_t kept_plans(const SearchProblem& problem, const SearchOptions& options);

}  // namespace rehearse
