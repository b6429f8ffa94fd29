#include "core/collective/nccl/nccl_tuning.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/collective/nccl/nccl_constants.hpp"

namespace rehearse::nccl {
namespace {

using namespace constants;

constexpr std::size_t index(Algorithm a) { return static_cast<std::size_t>(a); }
constexpr std::size_t index(Protocol p) { return static_cast<std::size_t>(p); }
constexpr std::size_t index(CollectiveOp op) { return static_cast<std::size_t>(op); }

constexpr bool gathers(CollectiveOp op) { return op == CollectiveOp::all_gather || op == CollectiveOp::reduce_scatter; }

/// Everything the cells share.
struct Context {
  const CommunicatorShape& shape;
  double ranks, nodes, per_node;
  Generation generation;
  std::size_t span;  ///< Column of the caps.

  explicit Context(const CommunicatorShape& s)
      : shape(s),
        ranks(s.ranks),
        nodes(s.nodes),
        per_node(ranks / nodes),
        generation(generation_of(s.min_compute_capability)),
        span(s.nodes == 1   ? 0
             : s.nodes == 2 ? 1
                            : 2) {}

  [[nodiscard]] const GraphResult& graph(Algorithm a) const {
    switch (a) {
      case Algorithm::ring: return shape.search.ring;
      case Algorithm::tree:
      case Algorithm::pat: return shape.search.tree;
      case Algorithm::nvls:
      case Algorithm::nvls_tree: return shape.search.nvls;
      case Algorithm::collnet_direct: return shape.search.collnet_direct;
      case Algorithm::collnet_chain: return shape.search.collnet_chain;
    }
    return shape.search.ring;
  }
  [[nodiscard]] double capped_channels(const GraphResult& g) const { return std::max(g.channels, shape.cap_channels); }
  [[nodiscard]] double steps(CollectiveOp op) const {
    return op == CollectiveOp::all_reduce ? 2 * (ranks - 1) : gathers(op) ? ranks - 1 : ranks;
  }
};

bool protocol_exists(Algorithm a, Protocol p) {
  return p == Protocol::simple || a == Algorithm::tree || a == Algorithm::ring;
}

bool algorithm_serves(const Context& c, CollectiveOp op, Algorithm a) {
  switch (a) {
    case Algorithm::ring: return true;
    case Algorithm::tree: return op == CollectiveOp::all_reduce;
    case Algorithm::nvls: {
      const bool sharp = c.shape.search.collnet_chain.channels > 0 && c.per_node <= c.shape.search.nvls.channels;
      return (c.shape.nodes == 1 || sharp) && (op == CollectiveOp::all_reduce || gathers(op));
    }
    case Algorithm::nvls_tree:
    case Algorithm::collnet_chain: return c.shape.nodes > 1 && op == CollectiveOp::all_reduce;
    case Algorithm::collnet_direct:
      return c.shape.nodes > 1 && c.shape.nvswitch && c.per_node <= kCollnetDirectRanks &&
             (op == CollectiveOp::all_reduce || gathers(op));
    case Algorithm::pat:
      return gathers(op) && c.shape.ranks == c.shape.nodes && c.shape.nodes > 1 && c.shape.min_compute_capability >= 60;
  }
  return false;
}

bool reduces_in_switch(CollectiveOp op, Algorithm a) {
  return op != CollectiveOp::all_gather && a != Algorithm::tree && a != Algorithm::ring && a != Algorithm::pat;
}

bool ll128_by_default(const CommunicatorShape& s, const GraphResult& g) {
  const auto furthest = s.min_compute_capability >= 90 ? PathClass::pxn : PathClass::pxb;
  return g.intra_path <= PathClass::nvlink_relay && g.inter_path <= furthest && s.min_compute_capability >= 70 &&
         s.min_compute_capability == s.max_compute_capability;
}

double channel_bandwidth(const Context& c, CollectiveOp op, Algorithm a, const GraphResult& g) {
  const double intra = g.intra.value() / kGiga, inter = g.inter.value() / kGiga, channels = g.channels;
  if (a == Algorithm::collnet_direct || a == Algorithm::collnet_chain) return intra;
  if (a != Algorithm::nvls && a != Algorithm::nvls_tree) return c.shape.nodes <= 2 ? intra : inter;
  if (g.channels < 2) return 0;
  const double share = op == CollectiveOp::all_reduce ? 2.0 : (c.per_node - 1) / c.per_node;
  double b = intra * kNvlsEfficiency[c.generation] * (channels - 1) / channels * share;
  b = std::min(b, inter * (c.shape.nodes <= 2 && a == Algorithm::nvls_tree ? 2.0 : 1.0));
  if (a == Algorithm::nvls_tree) b = std::min(b, kNvlsTree[c.generation][c.span]);
  return b;
}

double ll_max(const Context& c) {
  if (c.shape.nodes == 1) return kLlMax[c.generation][0];
  const bool amd_row = c.shape.cpu == CpuVendor::amd || c.shape.cpu == CpuVendor::mixed;
  return kLlMax[amd_row ? kAmpere : kVolta][c.span];
}

/// GPUs spread their data over the heads, which pass it to the network: fewer heads than GPUs slow it down.
double collnet_direct_bandwidth(const Context& c, CollectiveOp op, const GraphResult& g, double bus) {
  if (gathers(op)) return c.per_node * std::min(g.intra.value(), 0.9 * g.inter.value()) / kGiga;
  const double share = c.per_node / g.channels;
  bus /= share - (share - 1) / 2;
  return c.shape.min_compute_capability >= 90 ? 0.85 * bus : bus;
}

double bus_bandwidth(const Context& c, CollectiveOp op, Algorithm a, Protocol p) {
  const GraphResult& g = c.graph(a);
  const double channels = g.channels;
  double bus = channels * channel_bandwidth(c, op, a, g);
  if (a == Algorithm::ring && p == Protocol::ll) bus = std::min(ll_max(c), bus / 2);
  if (a == Algorithm::ring && p == Protocol::ll128)
    bus = std::min(0.92 * bus, c.capped_channels(g) * kRingLl128[c.generation][c.span]);
  if (a == Algorithm::tree) {
    bus = std::min(0.92 * bus, c.capped_channels(g) * kTree[c.generation][c.span]);
    if (p == Protocol::ll) bus = std::min(bus / 3.8, ll_max(c));
    if (p == Protocol::ll128)
      bus = std::min(bus * (c.shape.nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                     c.capped_channels(g) * kTreeLl128[c.generation][c.span]);
    if (c.shape.search.tree_pattern == TreePattern::chain) bus *= 0.85;
  }
  if (a == Algorithm::pat) bus *= 0.75;
  if (a == Algorithm::collnet_direct) bus = collnet_direct_bandwidth(c, op, g, bus);
  return bus;
}

double algorithm_bandwidth(const Context& c, CollectiveOp op, Algorithm a, Protocol p) {
  const double bus = bus_bandwidth(c, op, a, p);
  if (gathers(op) && a != Algorithm::ring) return bus;
  if (a == Algorithm::tree || a == Algorithm::collnet_direct || a == Algorithm::collnet_chain) return bus / 2;
  return bus * c.ranks / c.steps(op);
}

double ring_latency(const Context& c, CollectiveOp op, Protocol p, double inside, double outside) {
  const GraphResult& g = c.shape.search.ring;
  const Wire wire = c.shape.nodes > 1 ? kNet : g.intra_path == PathClass::nvlink ? kNvlink : kPci;
  if (op == CollectiveOp::broadcast || op == CollectiveOp::reduce) {
    const auto& rows = kHardwareLatency[wire];
    if (g.same_channels) return rows[index(Algorithm::ring)][index(p)];
    return c.ranks * rows[index(p == Protocol::simple ? Algorithm::tree : Algorithm::ring)][index(p)];
  }
  const double crossings = c.shape.nodes == 1 ? 0 : (op == CollectiveOp::all_reduce ? 2 : 1) * (c.nodes - 1);
  double post = 0;
  if (c.shape.nodes > 1) {
    post = c.shape.cpu == CpuVendor::amd ? kNetOverheadAmd : kNetOverhead;
    if (p == Protocol::simple) post *= 3;
  }
  return (c.steps(op) - crossings) * std::max(inside, post) + crossings * outside;
}

double latency(const Context& c, CollectiveOp op, Algorithm a, Protocol p) {
  const Wire wire = c.graph(a).intra_path == PathClass::nvlink ? kNvlink : kPci;
  const double inside = kHardwareLatency[wire][index(a)][index(p)];
  const auto net_row = c.shape.ranks == c.shape.nodes ? Algorithm::tree : a;
  const double nic = c.shape.net_latency.value() / kMicro * (p == Protocol::simple ? 2 : 1);
  const double outside = kHardwareLatency[kNet][index(net_row)][index(p)] + nic;
  const double levels = std::floor(std::log2(c.nodes));
  const double base = kBaseLatency[index(a)][index(p)];
  switch (a) {
    case Algorithm::ring: return base + ring_latency(c, op, p, inside, outside);
    case Algorithm::tree: return base + 2 * ((c.per_node - 1) * inside + levels * outside);
    case Algorithm::collnet_direct:
      return 2 * (std::min(1.0, c.per_node - 1) * inside + (c.per_node - 1) * 0.4) + outside;
    case Algorithm::collnet_chain: return 2 * (c.per_node - 1) * inside + outside;
    case Algorithm::nvls: return inside + (c.shape.nodes > 1 ? outside : 0);
    case Algorithm::nvls_tree: return base + inside + 2 * levels * outside;
    case Algorithm::pat: return base + levels * outside / 3.5 + 2.8 * c.ranks;
  }
  return 0;
}

bool available(const Context& c, const Filter& filter, CollectiveOp op, Algorithm a, Protocol p) {
  const GraphResult& g = c.graph(a);
  if (g.channels == 0 || !protocol_exists(a, p) || !algorithm_serves(c, op, a) || !filter.allows(op, a, p))
    return false;
  return p != Protocol::ll128 || filter.names_protocol(op, p) || ll128_by_default(c.shape, g);
}

}  // namespace

std::string_view name_of(Algorithm a) {
  constexpr std::array<std::string_view, kAlgorithms> names{"Tree",     "Ring", "CollNetDirect", "CollNetChain", "NVLS",
                                                            "NVLSTree", "PAT"};
  return names[index(a)];
}

std::string_view name_of(Protocol p) {
  constexpr std::array<std::string_view, kProtocols> names{"LL", "LL128", "Simple"};
  return names[index(p)];
}

int final_channels(const CommunicatorShape& shape) {
  const auto& ring = shape.search.ring;
  int channels = std::min(2 * std::min(ring.channels, shape.search.tree.channels), kMaxChannels);
  if (shape.min_compute_capability >= 90 && shape.nodes > 1 && ring.intra > BytesPerSecond{45 * kGiga} && channels < 16)
    channels *= 2;
  return std::clamp(std::max(channels, shape.min_channels), 1, kMaxChannels);
}

TuningTable::TuningTable(const CommunicatorShape& shape, const Filter& filter)
    : shape_(shape), channels_(final_channels(shape)), table_{} {
  if (shape.ranks < 2) return;
  const Context c(shape_);
  for (int o = 0; o < kOps; ++o) {
    for (int a = 0; a < kAlgorithms; ++a) {
      for (int p = 0; p < kProtocols; ++p) {
        const auto op = static_cast<CollectiveOp>(o);
        const auto algorithm = static_cast<Algorithm>(a);
        const auto protocol = static_cast<Protocol>(p);
        if (!available(c, filter, op, algorithm, protocol)) continue;
        table_[index(op)][index(algorithm)][index(protocol)] = {
            Seconds{latency(c, op, algorithm, protocol) * kMicro},
            BytesPerSecond{algorithm_bandwidth(c, op, algorithm, protocol) * kGiga}};
      }
    }
  }
}

const TableEntry& TuningTable::at(CollectiveOp op, Algorithm a, Protocol p) const {
  if (index(op) >= kOps)
    throw Error(ErrorKind::usage, "NCCL has no cost table for " + std::string(rehearse::name_of(op)), "collective",
                "it is grouped sends and receives");
  return table_[index(op)][index(a)][index(p)];
}

TableEntry TuningTable::corrected(CollectiveOp op, Algorithm a, Protocol p, double bytes) const {
  TableEntry e = at(op, a, p);
  if (a == Algorithm::tree && op == CollectiveOp::all_reduce) {
    const double size = bytes < 64 ? -1 : std::floor(std::log2(std::floor(bytes / 64)));
    if (size >= 0 && size < kTreeSizes) e.bandwidth *= kTreeCorrection[index(p)][static_cast<std::size_t>(size)];
  }
  const double per_channel_rank = std::floor(bytes / (double(channels_) * shape_.ranks));
  if (a == Algorithm::ring && p == Protocol::simple && op == CollectiveOp::all_reduce && shape_.nodes > 1 &&
      per_channel_rank >= 64)
    e.latency *= shape_.min_compute_capability < 80 ? 1.9 : 1.4;
  return e;
}

Seconds TuningTable::time(CollectiveOp op, Algorithm a, Protocol p, Bytes bytes) const {
  const TableEntry e = corrected(op, a, p, bytes.value());
  if (e.bandwidth.value() <= 0) return Seconds{std::numeric_limits<double>::infinity()};
  return e.latency + bytes / e.bandwidth;
}

BytesPerSecond TuningTable::bandwidth(CollectiveOp op, Algorithm a, Protocol p, Bytes bytes) const {
  return corrected(op, a, p, bytes.value()).bandwidth;
}

int TuningTable::channels_for(Algorithm a, Protocol p, double bytes) const {
  if (a == Algorithm::nvls || a == Algorithm::nvls_tree)
    return shape_.min_compute_capability < 100 ? 16 : shape_.nodes == 1 ? 24 : 32;
  const bool ring = a == Algorithm::ring;
  const double threads = p == Protocol::simple && !ring ? kWideThreads : kThreads[index(p)];
  const double threshold = kThreadThreshold[index(p)] * (ring && p == Protocol::ll ? double(shape_.ranks) : 1.0);
  const double wanted = std::floor(bytes / (threads * threshold));
  return int(std::clamp(wanted, 1.0, double(std::max(channels_, 1))));
}

Pick TuningTable::pick(CollectiveOp op, Bytes bytes, const CallKind& kind) const {
  const double waves = std::ceil(double(kind.grouped) / std::max(channels_, 1));
  Pick best;
  Seconds least{std::numeric_limits<double>::infinity()};
  best.time = Seconds{std::numeric_limits<double>::infinity()};
  for (int a = 0; a < kAlgorithms; ++a) {
    for (int p = 0; p < kProtocols; ++p) {
      const auto algorithm = static_cast<Algorithm>(a);
      const auto protocol = static_cast<Protocol>(p);
      TableEntry e = corrected(op, algorithm, protocol, bytes.value());
      if (e.bandwidth.value() <= 0 || (!kind.switch_reduces && reduces_in_switch(op, algorithm))) continue;
      const bool ring = algorithm == Algorithm::ring;
      e.latency *= ring ? waves : std::ceil(waves / kGroupedPerStep);
      const Seconds t = e.latency + bytes / e.bandwidth;
      const bool dear = kind.fp8_reduction && ring && shape_.ranks > kFp8RingRanks && op != CollectiveOp::all_gather &&
                        op != CollectiveOp::broadcast;
      const Seconds counted = dear ? t * kFp8RingPenalty : t;
      if (!(counted < least)) continue;
      least = counted;
      best = {algorithm, protocol, channels_for(algorithm, protocol, bytes.value()), e.latency, e.bandwidth, t};
    }
  }
  if (std::isinf(best.time.value()))
    throw Error(ErrorKind::usage,
                "no algorithm that was asked for can run " + std::string(rehearse::name_of(op)) + " here",
                "collective algorithm and protocol", "leave both empty to let the model choose");
  return best;
}

}  // namespace rehearse::nccl
