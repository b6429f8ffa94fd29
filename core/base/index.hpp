#pragma once
// Subscripts with the project's own indices. Ids of ranks, devices, streams, tensors and the like are signed, so that
// -1 can mean "none" and differences are what they seem; containers of the standard library count in std::size_t. nth()
// is the one place where the one becomes the other.
//
//   const Body& body = nth(program.bodies, entry.body);

#include <cassert>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace rehearse {

/// items[index], for an index of any integer or enumeration type. `index` must not be below zero: asserted where
/// assertions are on.
template <class Items, class Index>
[[nodiscard]] constexpr decltype(auto) nth(Items&& items, Index index) {
  static_assert(std::is_integral_v<Index> || std::is_enum_v<Index>, "an index is a number or an enumerator");
  if constexpr (std::is_signed_v<Index>) assert(index >= 0);
  return std::forward<Items>(items)[static_cast<std::size_t>(index)];
}

}  // namespace rehearse
