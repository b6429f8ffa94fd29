#pragma once
// What collectives take beyond NCCL's own cost table, as measured: plain data of topologies/collectives, one file per
// GPU generation. The equations that use it: core/collective/measured_latency.hpp.

#include <string>
#include <vector>

#include "core/hardware/specs.hpp"

namespace rehearse {

/// Of one GPU generation.
struct CollectiveConstants {
  std::string generation;
  Seconds overhead;               ///< Launch and the wait for the last rank, once per call.
  Seconds floor, floor_per_rank;  ///< No call inside a node was seen below floor + ranks * floor_per_rank.
  Seconds ring_fill;              ///< Time to fill the pipeline of chunks of a ring or tree (Simple).
  /// The same of NVLS and NVLSTree, per GPU of the node: each is the head of one slice of the data.
  Seconds nvls_fill_per_head;
  /// Rate of rings and trees in a node over NCCL's table: ring / (1 + ring_rank_loss / ranks).
  double ring = 1, ring_rank_loss = 0;
  double nvls = 1, nvls_tree = 1;  ///< The same of NVLS and NVLSTree.
  /// Share of its bandwidth that a gather reaches whose pieces do not begin on 16 bytes.
  double bytewise = 1;
  /// One message inside a node, empty: over NVLink or PCIe; through host memory.
  Seconds message, message_through_host;
  /// Of its links' rate, that an all-to-all of sends and receives reaches inside a node.
  double all_to_all_share = 1;
  double sms_per_channel = 1;  ///< SMs that a channel's thread block keeps from kernels beside it.
  /// Times that a byte on the wire is read or written in device memory, both ends together: of all-reduces, of other
  /// reductions, of calls that only move data.
  double touches_all_reduce = 2.5, touches_reducing = 3, touches_moving = 2;
  NetworkCollectives across;  ///< Where the network states nothing; everything but `sharp` is set.
  std::vector<Source> sources;
};

}  // namespace rehearse
