#pragma once
// Bodies: one task graph per distinct piece of work. A body says what is done with its formal tensors; entries of roles
// (program.hpp) say when, for which layer and microbatch, and bind the formals to storage. Bodies hold no times. A
// header of its own, as Boost.Graph takes as long to compile as most files that only hand Programs on.

#include <cstdint>
#include <string>
#include <vector>

#include <boost/graph/adjacency_list.hpp>

#include "core/program/task.hpp"

namespace rehearse {

/// A formal tensor. Scratch formals live within the body; the others are bound by entries. Its global shape, type and
/// layout are those of `like`, an index into Program::tensors (bindings must agree).
struct Formal {
  std::string name;
  int like = 0;
  bool bound = false;  ///< Whether entries bind it; otherwise it is scratch.
};

/// Vertices in issue order: tasks of one stream run in ascending vertex number. Edges are dependencies between streams
/// or data; tasks of one stream need none between them.
using TaskGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Task>;

struct Body {
  std::string name;  ///< "layer.forward", "layer.backward", "grad_bucket.reduce"
  Phase phase = Phase::forward;
  std::vector<Formal> formals;
  TaskGraph graph;
  /// First vertices of the pieces that interleaved entries alternate; empty: one piece.
  std::vector<std::int32_t> segments;
};

}  // namespace rehearse
