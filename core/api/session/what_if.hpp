#pragma once
// The plan on a cluster with something wrong.

#include <string>
#include <vector>

#include "core/api/session/session.hpp"

namespace rehearse {

/// "link=NAME:FACTOR" scales the rate of every link of that name ('*' for anything), "straggler=RANK:FACTOR" the time
/// of a rank's kernels, "fail=nic:NODE/NIC" takes a NIC away ("node0/NIC3", or "0/3"). Remembers it in
/// `session.changes`; a change that changes nothing (a factor of 1, or factors of one name that come to 1) leaves no
/// trace there. Throws Error (usage), `where` being the change, for anything else, for links, ranks and NICs that
/// are not there, and for factors that are not above zero.
void apply_what_if(Session& session, const std::vector<std::string>& changes);

}  // namespace rehearse
