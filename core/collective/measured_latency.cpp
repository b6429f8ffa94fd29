#include "core/collective/measured_latency.hpp"

#include <array>
#include <cmath>

namespace rehearse {
namespace {

constexpr Seconds us(double v) { return Seconds{v * 1e-6}; }

constexpr std::array<MeasuredCollectives, 4> kMeasured{{
    {.generation = "volta", .overhead_inside = us(25), .overhead_across = us(90), .floor_base = us(27), .floor_per_rank = us(8.2),
     .fill = us(1.5), .ring_gain = 1.15, .rank_loss = 0, .nvls_gain = 1, .across_gain = 1, .nvls_tree_gain = 1,
     .source = "bandwidth: oracle-quickstart 8 x V100, 135.5 GB/s at 1 GiB; latencies taken from ampere", .evidence = Evidence::estimate},
    {.generation = "ampere", .overhead_inside = us(25), .overhead_across = us(90), .floor_base = us(27), .floor_per_rank = us(8.2),
     .fill = us(1.5), .ring_gain = 1.03, .rank_loss = 0.43, .nvls_gain = 1, .across_gain = 1, .nvls_tree_gain = 1,
     .source = "inside: vTrain's authors, nccl-tests, 2, 4 and 8 A100; Meta gcm, 8 A100. across: OCI RoCE 2 x 8 A100; overhead from "
               "blackwell's InfiniBand row", .evidence = Evidence::published},
    {.generation = "hopper", .overhead_inside = us(15), .overhead_across = us(90), .floor_base = us(0), .floor_per_rank = us(0),
     .fill = us(5), .ring_gain = 1.045, .rank_loss = 0.08, .nvls_gain = 1.03, .across_gain = 0.97, .nvls_tree_gain = 1.07,
     .source = "bandwidth: stas00/ml-engineering, 4 to 8 H200; nccl-tests issues 256 (2 x 8 H200), 322 (128 x 8 H100). Latencies lie "
               "between ampere and blackwell", .evidence = Evidence::estimate},
    {.generation = "blackwell", .overhead_inside = us(10), .overhead_across = us(90), .floor_base = us(0), .floor_per_rank = us(0),
     .fill = us(8.5), .ring_gain = 1.0, .rank_loss = 0.1, .nvls_gain = 1.19, .across_gain = 1.01, .nvls_tree_gain = 1,
     .source = "inside: stas00/ml-engineering, 4 and 8 B200; OCI, 8 of a GB200 NVL72. across: OCI, 128 GB200 in two racks, "
               "InfiniBand (182 us, NCCL's table 92)", .evidence = Evidence::published},
}};

}  // namespace

std::span<const MeasuredCollectives> measured_collectives() { return kMeasured; }

const MeasuredCollectives& measured_collectives_of(int compute_capability) {
  return kMeasured[compute_capability >= 100 ? 3 : compute_capability >= 90 ? 2 : compute_capability >= 80 ? 1 : 0];
}

double bandwidth_gain(const MeasuredCollectives& m, nccl::Algorithm a, int ranks, int nodes) {
  if (a == nccl::Algorithm::nvls) return m.nvls_gain;
  if (a == nccl::Algorithm::nvls_tree) return m.nvls_tree_gain;
  return nodes > 1 ? m.across_gain : m.ring_gain / (1 + m.rank_loss / ranks);
}

Seconds measured_time(const MeasuredCollectives& m, nccl::Protocol p, Seconds nccl_latency, Seconds streaming, int ranks, int nodes) {
  const Seconds overhead = nodes > 1 ? m.overhead_across : m.overhead_inside;
  const Seconds filling{p == nccl::Protocol::simple ? 2 * std::sqrt(m.fill.value() * streaming.value()) : 0.0};
  const Seconds time = overhead + nccl_latency + streaming + filling;
  return nodes > 1 ? time : max(time, m.floor_base + m.floor_per_rank * double(ranks));
}

}  // namespace rehearse
