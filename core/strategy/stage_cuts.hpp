#pragma once
// Where a network is cut into pipeline chunks.

#include <vector>

#include "core/config/settings/strategy.hpp"
#include "core/model/network.hpp"

namespace rehearse {

/// Boundaries 0 = c_0 < c_1 < ... < c_chunks = positions, such that the heaviest of the chunks [c_i, c_i+1) is as light
/// as can be; of equally good cuts the one with the lightest first chunks. A block's work is its forward FLOPs and 50
/// for every element it makes, which takes a memory-bound pass about as long as 50 operations (ratio of fp32 peak to
/// memory bandwidth of GPUs since 2012, 12 to 20 operations per byte). `chunks` is at most the number of block
/// positions.
[[nodiscard]] std::vector<int> cut_by_work(const Network& network, int chunks);

/// First block position of each of the pp * virtual_stages chunks, and one past the last chunk's. Layers as given, in
/// equal parts, or with one more on some stages, never on the last alone, which has the head; what stands before the
/// first layer goes with it, what stands after the last with that. Networks without layers are cut by work.
[[nodiscard]] std::vector<int> chunk_cuts(const Network& network, const StrategySettings& settings);

}  // namespace rehearse
