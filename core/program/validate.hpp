#pragma once
// Checks that a Program means something before anything plays or executes it.

#include "core/program/program.hpp"

namespace rehearse {

/// Throws std::logic_error naming role, entry and rule when
///  - an index is out of range, a wait names an event nobody records before it, or a body's graph has a cycle;
///  - a binding disagrees with its formal in type, shape or layout;
///  - storage is used before it is allocated, allocated twice, freed twice, or left over at the end of a step;
///  - ranks of one communicator issue its collectives in different orders or with different sizes;
///  - a send has no matching receive, or the other way round.
/// Work is per role and per distinct group, not per rank.
void validate(const Program& program);

}  // namespace rehearse
