#pragma once
// Which ranks of a role hold alike: equal slices of every tensor, and the same tasks run.

#include <vector>

#include "core/base/index.hpp"
#include "core/program/program.hpp"

namespace rehearse {

class RankKinds {
 public:
  /// Linear in ranks; what is divided evenly and asks for no coordinate costs nothing.
  explicit RankKinds(const Program& program);
  /// The lowest rank of each kind, ascending; empty for a role that no rank has.
  [[nodiscard]] const std::vector<int>& first_ranks(int role) const { return nth(first_, role); }

 private:
  std::vector<std::vector<int>> first_;
};

/// Whether ranks of the island of `at`, with their numbers of microbatches, may do unequal things to memory in a call
/// of `body`.
[[nodiscard]] bool memory_varies_by_place(const Program& program, const Body& body, const BindingSet& bindings,
                                          const ExprContext& at);

/// Whether what a call of `body` does to memory can depend on its layer, chunk, microbatch, pass or copy.
[[nodiscard]] bool memory_varies_by_call(const Program& program, const Body& body, const BindingSet& bindings);

}  // namespace rehearse
