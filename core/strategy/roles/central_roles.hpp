#pragma once
// Roles of data parallelism whose parameters live on some ranks only: GPU 0 of a funnel, or the servers.

#include "core/strategy/roles/roles.hpp"

namespace rehearse {

/// Fills Program::roles and role_of_rank: a role for each rank that owns parameters, one for all others. Parameters
/// travel in groups of the bucket size, each owned by one rank; groups are dealt to the server with least so far.
void make_central_roles(ProgramFrame& frame, StepBodies& step, const RolePlan& plan);

}  // namespace rehearse
