#pragma once
// Sends and receives, and the all-to-alls made of them. NCCL picks no algorithm here: it spreads each message over some
// channels and works through the peers in rounds (facts of channels and rounds: enqueue.cc, channel.cc, paths.cc of
// NCCL 2.28.9). It predicts no times; the times are those of the wires, with measured latencies and shares
// (collective_constants.hpp).

#include "core/collective/collective.hpp"
#include "core/collective/prepared_group.hpp"

namespace rehearse {

/// How NCCL spreads messages over channels.
struct P2pChannels {
  int total = 1;     ///< Of the communicator: the collectives' channels, rounded up to a power of two.
  int per_peer = 1;  ///< Of one message.
  /// Messages of one rank under way at once: a channel's kernel holds up to eight.
  [[nodiscard]] int at_once() const { return total / per_peer * 8; }
};

/// Inside a node two channels per NVLink to the peer, two without NVLink; to another node two, or one where ranks are
/// many. The least of all peers, rounded up to a power of two, at most `total`.
[[nodiscard]] P2pChannels p2p_channels(const PreparedGroup& g);

/// all_to_all: each rank's bytes go to its own node over NVLink and to the others over its share of the NICs, at once;
/// one latency per round of `at_once` peers. send_recv: one message from each rank to the next, at most one leaving
/// each node; halo_exchange likewise, both ways at once. `wires`: time that the links need at least; it counts where
/// GPUs are not behind an NVSwitch. `direct` as in CallOptions: inside a node an all-to-all of sends and receives
/// reaches a share of what the links carry (collective_constants.hpp).
[[nodiscard]] CollectiveChoice point_to_point(const PreparedGroup& g, CollectiveOp op, Bytes bytes, Seconds wires,
                                              bool direct = false);

}  // namespace rehearse
