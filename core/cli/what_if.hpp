#pragma once
// --what-if: the plan on a cluster with something wrong.

#include <string>
#include <vector>

#include "core/cli/session.hpp"

namespace rehearse::cli {

/// "link=NAME:FACTOR" scales the rate of every link of that name ('*' for anything), "straggler=RANK:FACTOR" the time
/// of a rank's kernels, "fail=nic:NODE/NIC" takes a NIC away ("node0/NIC3", or "0/3"). Returns what was changed, in
/// words; empty for none. Throws Error (usage) for anything else, for links, ranks and NICs that are not there, and for
/// factors that are not above zero.
std::string apply_what_if(Session& session, const std::vector<std::string>& changes);

}  // namespace rehearse::cli
