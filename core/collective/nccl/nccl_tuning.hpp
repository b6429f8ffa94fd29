#pragma once
// NCCL's own cost model: the table of latency and bandwidth from which NCCL picks algorithm, protocol and channels.
//
// A pure function of what NCCL knows about a communicator. Formulas and constants restate graph/tuning.cc and
// enqueue.cc of NCCL 2.28.9; 32 recorded configurations of that version are reproduced without a mismatch
// (tests/unit/collective). CollNet (SHARP) is off by default in NCCL; it takes part where the network says so. Its
// cells restate the same files, but no recorded configuration has it.
//
// The table is what NCCL decides by, not what a machine does: measured_latency.hpp holds the difference.

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/units.hpp"
#include "core/collective/collective.hpp"

namespace rehearse::nccl {

/// Order is NCCL's: on equal predicted time the first wins.
enum class Algorithm { tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat };
enum class Protocol { ll, ll128, simple };
inline constexpr int kAlgorithms = 7;
inline constexpr int kProtocols = 3;
[[nodiscard]] std::string_view name_of(Algorithm a);
[[nodiscard]] std::string_view name_of(Protocol p);

/// Worst hop of a path, best first, in NCCL's order (graph/topo.h).
enum class PathClass { local, nvlink, nvlink_relay, c2c, pix, pxb, p2c, pxn, phb, sys, net, disconnected };

/// How a tree leaves a node. Numbers are NCCL's.
enum class TreePattern { balanced = 1, chain = 3 };

/// What the topology search found for one family of algorithms.
struct GraphResult {
  int channels = 0;      ///< Before doubling; 0: the family is not available.
  BytesPerSecond intra;  ///< Of one channel inside a node.
  BytesPerSecond inter;  ///< Of one channel between nodes.
  PathClass intra_path = PathClass::local;
  PathClass inter_path = PathClass::pix;
  bool same_channels = true;  ///< Every channel visits the GPUs in the same order.
  /// All channels together inside a node where the search found no path fast enough, at the slower speeds that it tries
  /// on older GPUs; 0 elsewhere, and where those find none.
  BytesPerSecond carries{};
  bool operator==(const GraphResult&) const = default;
};
/// Rate that NCCL writes for channels it found no path for (search.cc, 2.28.9); no speed that it tries.
inline constexpr BytesPerSecond kNoPath{0.1e9};

struct SearchResult {
  GraphResult ring, tree, nvls;
  TreePattern tree_pattern = TreePattern::balanced;
  GraphResult collnet_chain{}, collnet_direct{};  ///< Only where switches reduce.
  bool operator==(const SearchResult&) const = default;
};

enum class CpuVendor { intel, amd, mixed, other };

/// All that the table depends on.
struct CommunicatorShape {
  int ranks = 1;
  int nodes = 1;
  int min_compute_capability = 0;  ///< 70, 80, 90, 100 ...
  int max_compute_capability = 0;
  CpuVendor cpu = CpuVendor::intel;
  Seconds net_latency;  ///< What the network plug-in reports for one message; InfiniBand verbs report 0.
  SearchResult search;
  bool nvswitch = false;  ///< Every node has one: CollNetDirect needs it.
  int min_channels = 0;   ///< NCCL_MIN_NCHANNELS; 0 leaves them to NCCL.
  /// Search channels that per-channel caps count at least. NCCL decides with 0, whatever the thread blocks; what blocks
  /// reach when a user asks for more of them follows from min_channels / 2, since a search channel is two blocks.
  int cap_channels = 0;
  bool operator==(const CommunicatorShape&) const = default;
};

/// Thread blocks NCCL uses for its largest messages: two per search channel, doubled again on Hopper and later when a
/// few fast channels leave the node, at least `min_channels`, at most 64 (connect.cc).
[[nodiscard]] int final_channels(const CommunicatorShape& shape);

/// One cell of the table. `bandwidth` 0: not available.
struct TableEntry {
  Seconds latency;
  BytesPerSecond bandwidth;
};

/// Which cells a user allows: NCCL_ALGO and NCCL_PROTO.
struct Filter {
  /// Parses `[op:]list[;op:list]` where list is `[^]name,name` and `^` means all but. Empty text allows all.
  /// Throws Error (usage) with the valid names.
  static Filter parse(std::string_view algorithms, std::string_view protocols);
  [[nodiscard]] bool allows(CollectiveOp op, Algorithm a, Protocol p) const;
  /// A protocol named by the user is used even where NCCL would not by default (LL128 over PCIe).
  [[nodiscard]] bool names_protocol(CollectiveOp op, Protocol p) const;

 private:
  static constexpr int kOps = 7;
  std::array<std::uint8_t, kOps> algorithms_{filled(0xff)};
  std::array<std::uint8_t, kOps> protocols_{filled(0xff)};
  std::array<bool, kOps> protocol_named_{};
  static constexpr std::array<std::uint8_t, kOps> filled(std::uint8_t v) { return {v, v, v, v, v, v, v}; }
};

/// What NCCL's choice depends on beyond operation and size.
struct CallKind {
  int grouped = 1;             ///< Equal collectives between ncclGroupStart and ncclGroupEnd; `bytes` is their sum.
  bool fp8_reduction = false;  ///< Reduces 8-bit floats: rings over more than eight ranks are avoided.
  bool switch_reduces = true;  ///< NVLS and CollNet know the reduction and its type.
  auto operator<=>(const CallKind&) const = default;
};

/// What NCCL would run for one call.
struct Pick {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  int channels = 0;          ///< Thread blocks for this size.
  Seconds latency;           ///< NCCL's, for this size.
  BytesPerSecond bandwidth;  ///< NCCL's algorithm bandwidth, for this size.
  Seconds time;              ///< As NCCL predicts it: latency + bytes / bandwidth, the fp8 penalty left out.
};

/// The table of one communicator.
class TuningTable {
 public:
  TuningTable(const CommunicatorShape& shape, const Filter& filter);

  /// For all_reduce, all_gather, reduce_scatter, broadcast and reduce.
  [[nodiscard]] const TableEntry& at(CollectiveOp op, Algorithm a, Protocol p) const;
  /// Predicted time of one cell, as ncclTopoGetAlgoTime: T(n) = lat + n / bw, where trees lose bandwidth at some sizes
  /// and a ring that leaves the node pays 1.4 (1.9 before Ampere) times its latency on large Simple messages.
  /// Infinite where the cell is not available.
  [[nodiscard]] Seconds time(CollectiveOp op, Algorithm a, Protocol p, Bytes bytes) const;
  /// Bandwidth of one cell at this size; 0 where it is not available.
  [[nodiscard]] BytesPerSecond bandwidth(CollectiveOp op, Algorithm a, Protocol p, Bytes bytes) const;
  /// The fastest available cell. k collectives in one group pass in p = ceil(k / channels) waves: rings pay their
  /// latency p times, others ceil(p / 10) times (ncclTopoGetAlgoTime). Throws Error (usage) when the filter leaves
  /// none.
  [[nodiscard]] Pick pick(CollectiveOp op, Bytes bytes, const CallKind& kind = {}) const;

 private:
  static constexpr int kOps = 5;
  [[nodiscard]] TableEntry corrected(CollectiveOp op, Algorithm a, Protocol p, double bytes) const;
  [[nodiscard]] int channels_for(Algorithm a, Protocol p, double bytes) const;

  CommunicatorShape shape_;
  int channels_ = 0;
  std::array<std::array<std::array<TableEntry, kProtocols>, kAlgorithms>, kOps> table_;
};

}  // namespace rehearse::nccl
