#pragma once
// A cluster as a picture takes it: one node wire by wire, the switches above it by level, and every kind of wire of the
// whole cluster as one line.

#include <string>
#include <vector>

#include "core/cluster/cluster.hpp"

namespace rehearse {

/// What flows left on the links. Empty `bytes`: nothing is known, and the picture shows rates alone.
struct LinkUse {
  std::vector<double> bytes;  ///< By LinkId, per step.
  Seconds time;               ///< In which they passed: the mean of the steps that were played.
  Seconds step;               ///< The step that is told of.
};

/// {of, seconds, rows[{kind, vertices[]}], links[{name, a[row, i], b[row, i], rate_bytes_per_s, used, bytes}],
/// classes[{between, kind, rows, links, rate_bytes_per_s, mean_used, most_used, bytes}]}. Shown is the node whose wires
/// carry most. `used` is that of the fuller direction, 0..1 of its rate; `seconds` is null where nothing is known.
/// `classes` counts each direction as one wire and is ordered from the GPUs upwards.
[[nodiscard]] std::string topology_json(const Cluster& cluster, const LinkUse& use = {});

}  // namespace rehearse
