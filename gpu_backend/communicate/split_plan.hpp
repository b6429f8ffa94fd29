#pragma once
// Communicators that ranks ask for in orders of their own, made together: NCCL splits a world by calls that all ranks
// make in the same order.

#include <string>
#include <vector>

namespace rehearse {

/// A communicator: its name and members, in the order of the group. Channels have two.
struct Wanted {
  std::string name;
  std::vector<int> members;
  auto operator<=>(const Wanted&) const = default;
};

/// As text that goes through the rendezvous, and back.
[[nodiscard]] std::string to_text(const std::vector<Wanted>& wanted);
[[nodiscard]] std::vector<Wanted> wanted_from(const std::string& text);

/// Calls to make, in order: in each, communicators without a common member. The union of all ranks' wishes, so the same
/// on all ranks; the fewest calls that taking them in order of name gives.
[[nodiscard]] std::vector<std::vector<Wanted>> rounds_of(const std::vector<std::vector<Wanted>>& of_rank);

}  // namespace rehearse
