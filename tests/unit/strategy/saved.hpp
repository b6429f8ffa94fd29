#pragma once
// What one layer leaves for its backward.

#include "core/program/body.hpp"
#include "tests/unit/program/lowered.hpp"

namespace rehearse::test {

/// Bytes that the first call of `body` on `rank` allocates and leaves (its output, the next layer's input, among them).
inline double kept_bytes(const Program& p, const std::string& body, int rank = 0) {
  for (const Entry& e : p.roles[static_cast<std::size_t>(p.role_of_rank[static_cast<std::size_t>(rank)])].step) {
    if (p.bodies[static_cast<std::size_t>(e.body)].name != body) continue;
    double bytes = 0;
    for (const Binding& b : p.binding_sets[static_cast<std::size_t>(e.bindings)])
      if (b.allocate && !b.release && p.tensors[static_cast<std::size_t>(b.tensor)].alias_of < 0)
        bytes += p.local_bytes(p.tensors[static_cast<std::size_t>(b.tensor)], context_of(p, rank, e));
    return bytes;
  }
  throw std::logic_error("no body " + body);
}

}  // namespace rehearse::test
