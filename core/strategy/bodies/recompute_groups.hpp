#pragma once
// Full recomputation of some layers, or of groups of layers: Megatron's --recompute-method and --recompute-num-layers.
//
// `block` gives the first layers of every chunk the bodies that run forward again, the others those that keep
// everything. `uniform` with groups of N keeps one input per group; before the group's backwards all its layers run
// forward again and keep what backward reads, so that N layers' activations live at once in place of one's (Korthikanti
// et al. 2022, sec. 5; Chen et al. 2016).

#include <map>
#include <vector>

#include "core/strategy/roles/roles.hpp"

namespace rehearse {

struct RecomputeGroups {
  std::vector<int> body_at;   ///< By block position: index into the bodies, of which variants are appended.
  std::map<int, int> groups;  ///< Last position of a group to its first.
  std::vector<std::pair<int, int>> backwards;  ///< Block index and body of the backwards made.
};

/// Throws Error (usage) where the choice makes no sense: networks without repeated layers, groups of layers whose
/// weights are gathered one by one.
[[nodiscard]] RecomputeGroups make_recompute_groups(ProgramFrame& frame, const BlockOptions& options,
                                                    const StrategySettings& settings, std::vector<BlockTensors>& blocks,
                                                    const std::vector<int>& block_at,
                                                    const std::vector<ChunkPlacement>& chunks,
                                                    std::vector<BlockBodies>& bodies);

}  // namespace rehearse
