#pragma once
// What one layer leaves for its backward.

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "tests/unit/program/lowered.hpp"

namespace rehearse::test {

/// Bytes that the first call of `body` on `rank` allocates and leaves (its output, the next layer's input, among them).
inline double kept_bytes(const Program& p, const std::string& body, int rank = 0) {
  for (const Entry& e : nth(p.roles, nth(p.role_of_rank, rank)).step) {
    if (nth(p.bodies, e.body).name != body) continue;
    double bytes = 0;
    for (const Binding& b : nth(p.binding_sets, e.bindings))
      if (b.allocate && !b.release && nth(p.tensors, b.tensor).alias_of < 0)
        bytes += p.local_bytes(nth(p.tensors, b.tensor), context_of(p, rank, e));
    return bytes;
  }
  throw std::logic_error("no body " + body);
}

}  // namespace rehearse::test
