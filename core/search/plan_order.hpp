#pragma once
// Found::order, which names a plan in one order of its axes, what is known of such a plan, and the part of a divided
// search that it belongs to.
// Inside core/search only.

#include <cstdint>

#include "core/search/search.hpp"

namespace rehearse {

inline constexpr int kMostPlacements = 24;  ///< Room for the orders of one plan in Found::order.

/// Order numbers are below 2^61.
[[nodiscard]] inline std::uint64_t order_number(const Space::Plan& plan, int placement) {
  return plan_number(plan) * kMostPlacements + static_cast<std::uint64_t>(placement);
}
[[nodiscard]] inline Space::Plan plan_of_order(std::uint64_t order) { return plan_of_number(order / kMostPlacements); }

/// What is known of a plan.
struct PlanAnswer {
  bool known = false, legal = false, fits = false;
  Seconds step_time;
  Bytes needed;
};

/// Which part of a divided search a plan belongs to: numbers are mixed, as neighbours in the space take unlike times.
[[nodiscard]] inline bool belongs(const Space::Plan& plan, const SearchShard& shard) {
  std::uint64_t h = plan_number(plan) * 0x9E3779B97F4A7C15ULL;
  h ^= h >> 32;
  return shard.count == 1 || h % static_cast<std::uint64_t>(shard.count) == static_cast<std::uint64_t>(shard.index);
}

}  // namespace rehearse
