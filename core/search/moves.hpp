#pragma once
// Plans that differ in one choice from a plan, and plans to begin with: what a guided search walks over (guide.hpp).
//
// A choice is an axis's size (what one axis gives, another takes), the experts' axes, the schedule, the chunks of a
// stage, the microbatch, what is sharded, moved or made again, the context exchange, or sequence parallelism. Where a
// move to another mesh leaves a choice that does not exist there, the nearest one is taken.

#include <optional>
#include <vector>

#include "core/search/space.hpp"

namespace rehearse {

/// `space` must outlive it. Plans may be illegal: Space::legal() says so. Not to be used from several threads.
class Moves {
 public:
  /// `node`: GPUs of a node, at least 1.
  Moves(const Space& space, int node) : space_(space), node_(node) {}

  /// Plans that differ from `plan` in one choice, and, on another mesh, in the microbatch as well where it keeps the
  /// number of microbatches. In a fixed order, each once.
  [[nodiscard]] std::vector<Space::Plan> around(const Space::Plan& plan) const;

  /// `plan` in one choice that needs less memory, each step further than the one before: more recomputation, smaller
  /// microbatches, more sharding, and then all of them. What fits without is faster as a rule.
  [[nodiscard]] std::vector<Space::Plan> smaller(const Space::Plan& plan) const;

  /// Plans of families that differ in how they divide layers: one a mesh, on meshes whose tensor parallelism stays in a
  /// node. Those that divide the model over most GPUs come first, as they fit where others don't.
  [[nodiscard]] std::vector<Space::Plan> seeds(const StrategySettings& own, std::size_t most) const;

 private:
  [[nodiscard]] std::vector<std::uint32_t> meshes_around(std::uint32_t mesh) const;
  /// `plan` on another mesh, with this microbatch where that exists.
  [[nodiscard]] std::optional<Space::Plan> on_mesh(const Space::Plan& plan, std::uint32_t mesh, int microbatch) const;
  [[nodiscard]] std::optional<std::uint16_t> pipeline(std::uint32_t mesh, const Space::Pipeline& like) const;
  [[nodiscard]] std::uint8_t sharding(std::uint32_t mesh, const Space::Sharding& like, int dp) const;

  const Space& space_;
  int node_;
};

}  // namespace rehearse
