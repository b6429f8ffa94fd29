#pragma once
// Bodies: one task graph per distinct piece of work. A body says what is done with its formal tensors; entries of roles
// (program.hpp) say when, for which layer and microbatch, and bind the formals to storage. Bodies hold no times.

#include <cstdint>
#include <string>
#include <vector>

#include "core/program/task_graph.hpp"

namespace rehearse {

/// A formal tensor. Scratch formals live within the body; the others are bound by entries. Its global shape, type and
/// layout are those of `like`, an index into Program::tensors (bindings must agree).
struct Formal {
  std::string name;
  int like = 0;
  bool bound = false;  ///< Whether entries bind it; otherwise it is scratch.
};

struct Body {
  std::string name;  ///< "layer.forward", "layer.backward", "grad_bucket.reduce"
  Phase phase = Phase::forward;
  std::vector<Formal> formals;
  TaskGraph graph;
  /// First vertices of the pieces that interleaved entries alternate; empty: one piece.
  std::vector<std::int32_t> segments;
};

}  // namespace rehearse
