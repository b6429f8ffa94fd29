#pragma once
// Turns a schedule's slots into the entries of one stage's role.

#include <array>
#include <map>

#include "core/schedule/schedule.hpp"
#include "core/strategy/step_bodies.hpp"

namespace rehearse {

/// Bodies of one network block, made once and called for every layer.
struct BlockBodies {
  StepBodies::Made forward, backward;
  StepBodies::Made weight{-1, -1};  ///< Where backward is split: the weight half; `backward` then is the input half. Either may be -1.
  StepBodies::Made input{-1, -1};  ///< Brings the block's tokens or labels to the device; -1 when it has none.
};

struct RolePlan {
  const StrategySettings& settings;
  const Schedule& schedule;
  PipelineShape shape;
  const std::vector<int>& block_at;          ///< Block index by block position.
  const std::vector<BlockBodies>& bodies;    ///< By block index.
  const std::vector<BlockTensors>& blocks;
  const std::vector<ChunkPlacement>& chunks; ///< By copy and chunk.
  /// What crosses a boundary that is cut, forward and backward, by block position behind it.
  const std::map<int, std::array<StepBodies::Passing, 2>>& passing;

  [[nodiscard]] int chunk_count() const { return shape.stages * shape.virtual_stages; }
  [[nodiscard]] const ChunkPlacement& chunk(int c, int copy) const { return chunks[static_cast<std::size_t>(copy * chunk_count() + c)]; }
};

/// Whether gradients are reduced after every microbatch, automatic resolved.
[[nodiscard]] bool syncs_every_microbatch(const StrategySettings& settings, bool shards_gradients);

/// The role of pipeline stage `stage`.
Role make_role(ProgramFrame& frame, StepBodies& step, const RolePlan& plan, int stage);

}  // namespace rehearse
