#pragma once
// What calls cost beyond NCCL's own table, by GPU generation, from published benchmark runs.
//
// NCCL's constants choose algorithms; they are not measurements. One mechanism corrects them:
//
//   T(n) = max( floor, overhead + L + n/B + 2 sqrt(fill * n/B) )
//
//   L, B      NCCL's latency and algorithm bandwidth for this size, B times an efficiency:
//             gain / (1 + rank_loss / ranks) for rings and trees inside a node, a gain alone otherwise
//   overhead  launch and the wait for the last rank, once per call
//   fill      time to fill the pipeline of chunks: with chunks of the best size a message of streaming time t takes
//             (sqrt(t) + sqrt(fill))^2 (the classic optimum of segmented broadcasts). Simple only: LL and LL128 hand on
//             every 8 or 128 bytes, so that nothing fills
//   floor     time below which no call of this many ranks was seen, floor_base + floor_per_rank * ranks
//
// The rows it rests on and the error on each are printed by tests/unit/collective/test_measured.cpp.

#include <span>
#include <string_view>

#include "core/collective/nccl_tuning.hpp"
#include "core/hardware/specs.hpp"
#include "core/units/units.hpp"

namespace rehearse {

/// Constants of one generation. Gains are ratios to NCCL's table.
struct MeasuredCollectives {
  std::string_view generation;  ///< "volta", "ampere", "hopper", "blackwell".
  Seconds overhead_inside, overhead_across;  ///< Inside a node; between nodes (InfiniBand, RoCE).
  Seconds floor_base, floor_per_rank;        ///< Inside a node.
  Seconds fill;
  double ring_gain = 1, rank_loss = 0, nvls_gain = 1, across_gain = 1, nvls_tree_gain = 1;
  std::string_view source;
  Evidence evidence = Evidence::estimate;
};

/// All constants, for listings. Later generations than the last take the last.
[[nodiscard]] std::span<const MeasuredCollectives> measured_collectives();
[[nodiscard]] const MeasuredCollectives& measured_collectives_of(int compute_capability);

/// Ratio of the bandwidth a call reaches to the one in NCCL's table.
[[nodiscard]] double bandwidth_gain(const MeasuredCollectives& m, nccl::Algorithm a, int ranks, int nodes);
/// The equation above; `streaming` is n/B with B corrected.
[[nodiscard]] Seconds measured_time(const MeasuredCollectives& m, nccl::Protocol p, Seconds nccl_latency, Seconds streaming, int ranks,
                                    int nodes);

/// Messages between two devices: NCCL has no model for them, and no run at hand isolates them.
/// Latency is NCCL's hardware latency of one Simple step, its base and a kernel launch of 5 us (estimate). The share of a NIC's
/// rate that one message reaches is ib_write_bw's 193.7 of 200 Gb/s (stas00/ml-engineering); an all-to-all across nodes reaches
/// .94 (SimAI's ratio table: .94 - .96 on 4 and 8 nodes at 1 GB and more).
inline constexpr Seconds kSendInside{17e-6};
inline constexpr Seconds kSendThroughHost{19e-6};
inline constexpr Seconds kSendAcross{27e-6};
inline constexpr double kSendNicShare = 0.968;
inline constexpr double kAllToAllNicShare = 0.94;

}  // namespace rehearse
