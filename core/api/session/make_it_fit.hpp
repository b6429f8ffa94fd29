#pragma once
// The change of a scenario that makes it fit and costs the least time.

#include <optional>

#include "core/api/session/session.hpp"

namespace rehearse {

/// Tries every single change: recomputation, sequence parallelism, ZeRO 1 to 3, FSDP, offloading, smaller microbatches,
/// and larger tp (inside a machine), cp, ep and pp, taken from dp. Each is lowered, its peak memory worked out, and its
/// step in closed form where it fits; the shortest step wins. Where no single change does, pairs of the five that save
/// most. Axes and microbatches go by powers of two, up to the first that fits. Empty when none fits.
[[nodiscard]] std::optional<Suggestion> cheapest_change(const Session& session, const MemoryRule& rule);

}  // namespace rehearse
