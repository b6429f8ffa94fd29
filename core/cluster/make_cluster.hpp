#pragma once
// From names to a cluster.

#include <string>

#include "core/cluster/cluster.hpp"
#include "core/hardware/catalogue.hpp"

namespace rehearse {

/// Machines and a network by their ids in the catalogue, for a cluster that has no file of its own: fill in `parts` and
/// `network`; an empty `name` becomes "8 x dgx_h100".
/// Throws Error (usage) for an unknown id, and as Cluster does.
[[nodiscard]] Cluster make_cluster(const Catalogue& catalogue, const ClusterSpec& spec);

/// A cluster of the catalogue by its id ("selene").
[[nodiscard]] Cluster make_cluster(const Catalogue& catalogue, const std::string& id);

}  // namespace rehearse
