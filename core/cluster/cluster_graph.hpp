#pragma once
// A cluster written out as a graph, for drawing, importing and checking. Apart from cluster.hpp, as Boost.Graph is slow
// to compile.

#include <string>

#include <boost/graph/adjacency_list.hpp>

#include "core/cluster/cluster.hpp"

namespace rehearse {

struct ClusterVertex {
  std::string name;
  std::string kind;
};
struct ClusterEdge {
  LinkId link;
  std::string kind;
  BytesPerSecond rate;
};
struct ClusterGraph : boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, ClusterVertex, ClusterEdge> {};

}  // namespace rehearse
