#pragma once
// Why a plan wins, and what another gives up: from the difference of two breakdowns, whose parts add up to the
// difference of the step times.

#include <string>

#include "core/search/search.hpp"

namespace rehearse {

/// "+0.31 s: +0.42 s bubble (waiting for others), -0.11 s recomputation; 5.1 GiB less memory". Against the winner
/// itself "the best".
[[nodiscard]] std::string trade_text(const Found& plan, const Found& winner);

/// One paragraph: the winner's time, against the next and against the scenario's own strategy, by category, with its
/// memory. `scenario` is what to call the own strategy's origin.
[[nodiscard]] std::string why_text(const SearchResult& result, Objective objective);

}  // namespace rehearse
