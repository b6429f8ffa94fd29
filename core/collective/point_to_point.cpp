#include "core/collective/point_to_point.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace rehearse {
namespace {

int power_of_two_above(int n) { return int(std::bit_ceil(unsigned(std::max(n, 1)))); }

/// Each rank's bytes to its own node and, at the same time, to the others. `direct` as in CallOptions.
Seconds spread(const PreparedGroup& g, Bytes bytes, bool direct) {
  const double n = g.shape.ranks, here = g.per_node;
  Seconds out;
  if (here > 1) {
    const auto& ring = g.shape.search.ring;
    const auto inside =
        g.shape.nodes > 1 ? g.wires.total_inside : min(g.wires.total_inside, ring.intra * double(ring.channels));
    const double share = direct || g.shape.nodes > 1 || g.through_host ? 1.0 : g.measured.gpu.all_to_all_share;
    out = bytes * ((here - 1) / n) / (inside * share);
  }
  if (g.shape.nodes > 1)
    out = max(out, bytes * here * ((n - here) / n) / (g.wires.total_across * *g.measured.network.all_to_all_share));
  return out;
}

/// One message from each rank to the next.
Seconds shift(const PreparedGroup& g, Bytes bytes) {
  const auto inside = g.per_node > 1 ? g.wires.edge_inside : g.wires.edge_across;
  if (g.shape.nodes > 1) return bytes / min(g.wires.edge_across * *g.measured.network.message_share, inside);
  const auto& ring = g.shape.search.ring;
  return bytes / min(g.wires.edge_inside, ring.intra * double(ring.channels));
}

Seconds message_latency(const PreparedGroup& g) {
  if (g.shape.nodes > 1) return *g.measured.network.message;
  return g.through_host ? g.measured.gpu.message_through_host : g.measured.gpu.message;
}

}  // namespace

P2pChannels p2p_channels(const PreparedGroup& g) {
  P2pChannels out;
  out.total = power_of_two_above(nccl::final_channels(g.shape));
  int least = g.per_node > 1 ? 2 * std::max(g.peer_links, 1) : out.total;
  if (g.shape.nodes > 1) least = std::min(least, 2 * g.shape.ranks > 4 * out.total ? 1 : 2);
  out.per_peer = std::min(power_of_two_above(least), out.total);
  return out;
}

CollectiveChoice point_to_point(const PreparedGroup& g, CollectiveOp op, Bytes bytes, Seconds wires, bool direct) {
  constexpr double kLlBytesPerChannel = 16 * 1024;
  const P2pChannels channels = p2p_channels(g);
  const bool single = op != CollectiveOp::all_to_all;
  const Bytes message = single ? bytes : bytes / double(g.shape.ranks);
  CollectiveChoice out;
  out.algorithm = "P2P";
  out.protocol = g.shape.nodes == 1 && message.value() <= kLlBytesPerChannel * channels.per_peer ? "LL" : "Simple";
  out.channels = single ? channels.per_peer : std::min(channels.total, channels.per_peer * (g.shape.ranks - 1));
  out.latency = message_latency(g) * (single ? 1.0 : std::ceil(double(g.shape.ranks - 1) / channels.at_once()));
  Seconds streaming = single ? shift(g, bytes) : spread(g, bytes, direct);
  streaming = max(streaming, wires);
  out.time = out.latency + streaming;
  out.bandwidth = bytes / streaming;
  return out;
}

}  // namespace rehearse
