#pragma once
// Skip connections: values that an earlier block makes for a later one, past those between. On one stage the later
// block reads the maker's tensor; across stages the value travels with the message of every boundary on its way, and
// its gradient back likewise.

#include <array>
#include <map>
#include <vector>

#include "core/model/network.hpp"
#include "core/strategy/bodies/step_bodies.hpp"

namespace rehearse {

/// Fills BlockTensors::skips_in and skips_out and the readers' values. Storage: the maker's pass allocates; the last
/// pass on the stage that reads the value drops it, and where the maker needs it no longer, so does its message. Throws
/// Error (usage) where a value would come back to a stage that it has left (several chunks per stage).
void link_skips(ProgramFrame& frame, const Network& network, const std::vector<ChunkPlacement>& chunks,
                std::vector<BlockTensors>& blocks);

/// Adds what is carried past each boundary, by the block position behind it; forward first.
void carry_skips(const Network& network, const std::vector<BlockTensors>& blocks,
                 const std::vector<ChunkPlacement>& chunks, std::map<int, std::array<StepBodies::Passing, 2>>& passing);

}  // namespace rehearse
