#include "core/collective/measured_latency.hpp"

#include <cmath>

namespace rehearse {
namespace {

using nccl::Algorithm;
using nccl::Protocol;

constexpr double kHidden = 4;  // Exponent of "the longer of the two".

Seconds fill_of(const CollectiveConstants& gpu, const MeasuredCall& c) {
  if (c.protocol != Protocol::simple) return Seconds{};
  const bool multicast = c.algorithm == Algorithm::nvls || c.algorithm == Algorithm::nvls_tree;
  return multicast ? gpu.nvls_fill_per_head * double(c.heads) : gpu.ring_fill;
}

}  // namespace

MeasuredCosts measured_costs(const CollectiveConstants* gpu, const NetworkCollectives& network) {
  MeasuredCosts out{gpu != nullptr ? *gpu : CollectiveConstants{}, network};
  const NetworkCollectives& otherwise = out.gpu.across;
  const auto complete = [](auto& stated, const auto& fallback, auto neutral) {
    if (!stated) stated = fallback.value_or(neutral);
  };
  complete(out.network.crossing, otherwise.crossing, Seconds{});
  complete(out.network.bandwidth, otherwise.bandwidth, 1.0);
  complete(out.network.message, otherwise.message, Seconds{});
  complete(out.network.message_share, otherwise.message_share, 1.0);
  complete(out.network.all_to_all_share, otherwise.all_to_all_share, 1.0);
  return out;
}

int crossings(CollectiveOp op, Algorithm a, int nodes) {
  if (nodes < 2) return 0;
  const int levels = int(std::floor(std::log2(double(nodes))));
  switch (a) {
    case Algorithm::ring: return (op == CollectiveOp::all_reduce ? 2 : 1) * (nodes - 1);
    case Algorithm::tree:
    case Algorithm::nvls_tree: return 2 * levels;
    case Algorithm::pat: return levels;
    case Algorithm::collnet_direct:
    case Algorithm::collnet_chain:
    case Algorithm::nvls: return 2;
  }
  return 0;
}

double bandwidth_gain(const MeasuredCosts& m, Algorithm a, int ranks, int nodes) {
  const double network = nodes > 1 ? *m.network.bandwidth : 1.0;
  if (a == Algorithm::nvls) return m.gpu.nvls * network;
  if (a == Algorithm::nvls_tree) return m.gpu.nvls_tree * network;
  return nodes > 1 ? network : m.gpu.ring / (1 + m.gpu.ring_rank_loss / ranks);
}

Seconds measured_time(const MeasuredCosts& m, const MeasuredCall& c) {
  const Seconds latency = c.nccl_latency + *m.network.crossing * double(crossings(c.op, c.algorithm, c.nodes));
  if (c.nodes > 1 && c.algorithm == Algorithm::ring && c.protocol != Protocol::simple)
    return m.gpu.overhead +
           Seconds{std::pow(std::pow(latency.value(), kHidden) + std::pow(c.streaming.value(), kHidden), 1 / kHidden)};
  const Seconds filling{2 * std::sqrt(fill_of(m.gpu, c).value() * c.streaming.value())};
  const Seconds time = m.gpu.overhead + latency + c.streaming + filling;
  return c.nodes > 1 ? time : max(time, m.gpu.floor + m.gpu.floor_per_rank * double(c.ranks));
}

}  // namespace rehearse
