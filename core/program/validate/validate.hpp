#pragma once
// Checks that a Program means something before anything plays or executes it.

#include "core/program/program.hpp"

namespace rehearse {

/// Throws std::logic_error naming role, entry and rule when
///  - an index is out of range, a view stands before what it views, or ranks, roles and devices disagree in number;
///  - a wait names an event that nothing before it records, an event is recorded twice, or a body depends against its
///  issue order;
///  - a binding disagrees with its formal in type, shape or layout;
///  - storage is used before it is allocated, allocated twice, freed twice, or the step ends with other storage than it
///  began with;
///  - ranks of one communicator issue its collectives in different orders;
///  - what one rank sends is not what the other receives, in the same order.
/// Work is per role, not per rank. Deadlock is found by playing: a back end reports the tasks that never started.
void validate(const Program& program);

}  // namespace rehearse
