#include <array>

#include "core/base/index.hpp"
#include "core/base/registry.hpp"
#include "core/collective/collective.hpp"

namespace rehearse {
namespace {
constexpr std::array<std::string_view, 8> kNames{"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                                 "reduce",     "all_to_all", "halo_exchange",  "send_recv"};
}

std::string_view name_of(CollectiveOp op) { return nth(kNames, op); }

CollectiveOp parse_collective_op(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<CollectiveOp>(i);
  const std::vector<std::string> valid(kNames.begin(), kNames.end());
  throw unknown_name("collective", name, valid);
}

double bus_factor(CollectiveOp op, int ranks) {
  if (ranks < 1) ranks = 1;
  const double others = double(ranks - 1) / ranks;
  switch (op) {
    case CollectiveOp::all_reduce: return 2 * others;
    case CollectiveOp::all_gather:
    case CollectiveOp::reduce_scatter:
    case CollectiveOp::all_to_all: return others;
    case CollectiveOp::broadcast:
    case CollectiveOp::reduce:
    case CollectiveOp::halo_exchange:
    case CollectiveOp::send_recv: return 1;
  }
  return 1;
}

}  // namespace rehearse
