#pragma once
// Turns a schedule's slots into the entries of one stage's role.

#include <array>
#include <map>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/bodies/step_bodies.hpp"

namespace rehearse {

/// Bodies of one network block, made once and called for every layer.
struct BlockBodies {
  StepBodies::Made forward, backward;
  /// Where backward is split: the weight half; `backward` then is the input half. Either may be -1.
  StepBodies::Made weight{-1, -1};
  StepBodies::Made weights{-1, -1};  ///< Casts weights to fp8, once a step; -1 where copies are not kept.
  /// Forward again in a group of layers, before its backwards; the group's last does not hand on its output.
  StepBodies::Made again{-1, -1};
  StepBodies::Made again_last{-1, -1};
  StepBodies::Made input{-1, -1};  ///< Brings the block's tokens or labels to the device; -1 when it has none.
};

struct RolePlan {
  const StrategySettings& settings;
  const Schedule& schedule;
  PipelineShape shape;
  const std::vector<int>& block_at;  ///< Block index by block position.
  /// Index into `bodies` by block position: layers of one block may recompute unlike.
  const std::vector<int>& body_at;
  const std::map<int, int>& groups;        ///< Last position of a group that runs again together, to its first.
  const std::vector<BlockBodies>& bodies;  ///< By block index, then variants.
  const std::vector<BlockTensors>& blocks;
  const std::vector<ChunkPlacement>& chunks;  ///< By copy and chunk.
  /// What crosses a boundary that is cut, forward and backward, by block position behind it.
  const std::map<int, std::array<StepBodies::Passing, 2>>& passing;

  [[nodiscard]] const BlockBodies& bodies_at(int position) const { return nth(bodies, nth(body_at, position)); }
  /// The block position whose weight gradients wait for the last backward pass, of the first microbatches; -1: none.
  [[nodiscard]] int deferred_position() const {
    return settings.deferred_head_gradients > 0 ? static_cast<int>(block_at.size()) - 1 : -1;
  }
  [[nodiscard]] int chunk_count() const { return shape.stages * shape.virtual_stages; }
  [[nodiscard]] const ChunkPlacement& chunk(int c, int copy) const { return nth(chunks, copy * chunk_count() + c); }
};

/// Whether gradients are reduced after every microbatch, automatic resolved.
[[nodiscard]] bool syncs_every_microbatch(const StrategySettings& settings, bool shards_gradients);

/// The role of pipeline stage `stage`.
Role make_role(ProgramFrame& frame, StepBodies& step, const RolePlan& plan, int stage);

}  // namespace rehearse
