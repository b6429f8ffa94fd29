#pragma once
// Names of the collectives; the model that prices them is in collective.hpp.

#include <cstdint>
#include <string_view>

namespace rehearse {

/// In a halo exchange every member sends to its neighbours in the group, and the ends of the group are open; in
/// send_recv every member sends to the next, and the last to the first, or all the other way round, which loads the
/// wires alike.
enum class CollectiveOp : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  halo_exchange,
  send_recv
};
/// Whether it is a set of messages, with no algorithm to choose.
[[nodiscard]] constexpr bool is_point_to_point(CollectiveOp op) {
  return op == CollectiveOp::all_to_all || op == CollectiveOp::halo_exchange || op == CollectiveOp::send_recv;
}
[[nodiscard]] std::string_view name_of(CollectiveOp op);
/// Throws Error (usage) with the valid names.
[[nodiscard]] CollectiveOp parse_collective_op(std::string_view name);

}  // namespace rehearse
