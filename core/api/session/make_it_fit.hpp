#pragma once
// The smallest change of a scenario that makes it fit.

#include <optional>

#include "core/api/session/session.hpp"

namespace rehearse {

/// Tries single changes, cheapest first: recomputation selective, then full, sequence parallelism, ZeRO 1, smaller
/// microbatches, larger tp (inside a machine) and larger pp, both taken from dp; then pairs of them in the same order.
/// Each is lowered and its peak memory computed. Empty when none fits, or the scenario already does.
[[nodiscard]] std::optional<Suggestion> smallest_change(const Session& session, const MemoryRule& rule);

}  // namespace rehearse
