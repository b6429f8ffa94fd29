#pragma once
// Why a space is empty: which of the fixed settings has a value that no plan has, and which values plans have. Inside
// core/search only.

#include <set>
#include <string>

#include "core/base/error.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

/// For a space (space.hpp) that these arguments leave without a plan. Names the first fixed setting whose value no plan
/// has that agrees with the others, with the nearest values; else `what`.
[[nodiscard]] Error no_plan(const std::string& what, const Workload& workload, const StrategySettings& own, int devices,
                            const std::set<std::string>& fixed);

}  // namespace rehearse
