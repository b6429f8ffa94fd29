#pragma once
// What the search looks for: channels through the GPUs of a node, all of one pattern and one speed.

#include <array>
#include <vector>

#include "core/collective/nccl/nccl_tuning.hpp"

namespace rehearse::nccl {

/// Numbers are NCCL's (graph.h). split_tree is not searched by NCCL 2.28.9.
enum class Pattern { balanced_tree = 1, chain_tree = 3, ring = 4, nvls = 5 };
[[nodiscard]] constexpr bool is_tree(Pattern p) { return p == Pattern::balanced_tree || p == Pattern::chain_tree; }

/// Which NICs a channel may leave through.
enum class CrossNic {
  no = 0,       ///< Through the one it came in by.
  in_pairs = 2  ///< Odd channels run the other way round.
};

/// A setting that is tried, or the best channels found so far. GPUs and NICs are indices among their kind.
struct Graph {
  Pattern pattern = Pattern::ring;
  CrossNic cross_nic = CrossNic::no;
  int least_channels = 1;
  int most_channels = 1;
  int channels = 0;
  float intra = 0, inter = 0;                                            ///< GB/s of one channel.
  PathClass intra_kind = PathClass::local, inter_kind = PathClass::pix;  ///< Worst path allowed.
  bool same_channels = true;                                             ///< Every channel takes the first one's order.
  int hops = 0;
  std::vector<int> order;                ///< channels x GPUs.
  std::vector<std::array<int, 2>> nets;  ///< Way in, way out; -1 inside a node.
};

}  // namespace rehearse::nccl
