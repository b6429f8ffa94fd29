#pragma once
// A cluster as a drawing for Graphviz.

#include <string>

#include "core/cluster/cluster.hpp"

namespace rehearse {

/// An undirected graph in the DOT language: a box per node with what is in it, switches, and a line per pair of links
/// labelled with the rate of one direction. Nodes of a cluster with more than `most_vertices` vertices are drawn as one
/// box each, their NICs' links as one line. Throws Error (usage) where even that is more than `most_vertices`.
[[nodiscard]] std::string dot_text(const Cluster& cluster, int most_vertices = 600);

}  // namespace rehearse
