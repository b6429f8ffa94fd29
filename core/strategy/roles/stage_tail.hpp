#pragma once
// What follows a stage's last pass: gradients still to be reduced, the gradient norm, the update, and gathering what
// was updated in slices.

#include "core/strategy/roles/stage_gradients.hpp"

namespace rehearse {

/// Appends it to `entries`. `last_pass` is the event of the last pass; `first_gather` the step's first entry that
/// gathers parameters from slices, or -1.
void add_tail(ProgramFrame& frame, StepBodies& step, const RolePlan& plan, StageGradients& gradients,
              RoleEntries& entries, EventId last_pass, int first_gather);

}  // namespace rehearse
