#pragma once
// The cluster that a scenario names.

#include "core/cluster/cluster.hpp"
#include "core/config/scenario.hpp"
#include "core/hardware/catalogue.hpp"

namespace rehearse {

/// Machines, networks and clusters by name or from files of their own. One machine needs no network. Throws Error
/// (usage) for unknown names, bad files, and several machines without a network.
[[nodiscard]] Cluster scenario_cluster(const Catalogue& catalogue, const Scenario& scenario);

/// What a user may type for a cluster: a registered cluster, a registered machine (one of it), or the path of a file of
/// either kind. Throws Error (usage) for anything else, with the nearest name.
[[nodiscard]] Cluster named_cluster(const Catalogue& catalogue, const std::string& what);

}  // namespace rehearse
