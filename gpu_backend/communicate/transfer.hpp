#pragma once
// Which elements move when a tensor changes its layout: from the global elements that each side holds, so that every
// layout that `held` understands can be redistributed.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/program/held.hpp"
#include "gpu_backend/execute/element_range.hpp"

namespace rehearse {

/// Consecutive elements of a local storage.
using Block = ElementRange;
using Blocks = ElementRanges;

/// The stored elements of `mine` that `other` holds too, in ascending global order: both sides of a transfer list them
/// alike. Where one is a flat slice, both must have the same extents.
[[nodiscard]] Blocks common(const Held& mine, const Held& other);
/// Where the halos of `mine` and `other` along `dim` meet the other's own elements: what `mine` sends, or receives.
/// Along dimensions that are `filled`, halos go along; along the others only a rank's own elements do.
[[nodiscard]] Blocks halo_part(const Held& mine, const Held& other, std::size_t dim, const std::vector<bool>& filled,
                               bool sends);
[[nodiscard]] std::int64_t total(const Blocks& blocks);

/// Copies the blocks of `from` to `to`, one after the other, and back. Return the place after the last.
std::byte* pack(const std::byte* from, const Blocks& blocks, std::size_t element_size, std::byte* to);
const std::byte* unpack(const std::byte* from, const Blocks& blocks, std::size_t element_size, std::byte* to);

}  // namespace rehearse
