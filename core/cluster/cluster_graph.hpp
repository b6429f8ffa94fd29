#pragma once
// A cluster written out as a graph, for drawing, importing and checking. Apart from cluster.hpp, as Boost.Graph is slow
// to compile.

#include <optional>
#include <string>
#include <string_view>

#include <boost/graph/adjacency_list.hpp>

#include "core/cluster/cluster.hpp"

namespace rehearse {

/// A part of a node, or a switch of the fabric.
struct ClusterVertex {
  std::string name;                             ///< "node3/GPU0", or the switch's.
  std::optional<MachineSpec::VertexKind> kind;  ///< None: a switch of the fabric ...
  NodeId node = -1;                             ///< ... which is in no node.
  std::string in_node = {};                     ///< "GPU0".
};
struct ClusterEdge {
  LinkId link;
  std::optional<MachineSpec::LinkKind> kind;  ///< None: a link of the fabric.
  BytesPerSecond rate;
};
/// "nvlink", "pcie", "socket", "c2c", "network".
[[nodiscard]] std::string_view kind_name(const ClusterEdge& edge);
struct ClusterGraph : boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, ClusterVertex, ClusterEdge> {};

}  // namespace rehearse
