#pragma once
// What calls cost beyond NCCL's own table, from published benchmark runs.
//
// NCCL's constants choose algorithms; they are not measurements. One mechanism corrects them, with constants of the GPU
// generation and of the network (topologies/collectives, topologies/networks: every figure with source and evidence):
//
//   T(n) = max( floor, overhead + L + X crossing + n/B + 2 sqrt(fill n/B) )
//
//   L, B      NCCL's latency and algorithm bandwidth for this size, B times a gain
//   overhead  launch and the wait for the last rank, once per call
//   X         times the critical path crosses the network: 2(N-1) for a ring all-reduce over N nodes, N-1 for other
//   rings,
//             2 floor(log2 N) for trees, 2 where the switches reduce
//   fill      time to fill the pipeline of chunks: with chunks of the best size a message of streaming time t takes
//             (sqrt(t) + sqrt(fill))^2, the classic optimum of segmented broadcasts. Simple only: LL and LL128 hand on
//             every 8 or 128 bytes, so that nothing fills. NVLS fills one pipeline per GPU of a node, each the head of
//             a slice
//   floor     time below which no call of this many ranks was seen, inside a node
//
// Rings of LL and LL128 across nodes stream while the first bytes still travel: there the longer of the two rules,
//   T(n) = overhead + ((L + X crossing)^4 + (n/B)^4)^(1/4)
// (NVIDIA/nccl-tests issue 322: a ring over 1,024 GPUs takes 19 ms at 1 GiB and at 2 GiB, and the wire's time from 4
// GiB on).
//
// The rows this rests on and the error on each are printed by tests/unit/collective/test_measured.cpp and
// tests/published/test_collectives.cpp, which also takes the networks' crossing times from half of the rows.

#include "core/base/units.hpp"
#include "core/collective/nccl/nccl_tuning.hpp"
#include "core/hardware/collective_constants.hpp"

namespace rehearse {

/// The constants that apply to one group.
struct MeasuredCosts {
  CollectiveConstants gpu;     ///< Of its oldest generation.
  NetworkCollectives network;  ///< Every member set.
};
/// `network`, completed by what the generation's file says. Without a file (null): no cost beyond NCCL's table, shares
/// of one.
[[nodiscard]] MeasuredCosts measured_costs(const CollectiveConstants* gpu, const NetworkCollectives& network);

/// X above; 0 inside a node.
[[nodiscard]] int crossings(CollectiveOp op, nccl::Algorithm a, int nodes);

/// A call as the equation sees it.
struct MeasuredCall {
  CollectiveOp op;
  nccl::Algorithm algorithm;
  nccl::Protocol protocol;
  Seconds nccl_latency;  ///< L.
  Seconds streaming;     ///< n/B, B with its gain.
  int ranks, nodes;
  int heads;  ///< Ranks per node.
};
[[nodiscard]] Seconds measured_time(const MeasuredCosts& m, const MeasuredCall& call);

/// Ratio of the bandwidth that a call reaches to the one in NCCL's table: the GPU's gain times, across nodes, the
/// network's.
[[nodiscard]] double bandwidth_gain(const MeasuredCosts& m, nccl::Algorithm a, int ranks, int nodes);

}  // namespace rehearse
