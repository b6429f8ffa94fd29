#pragma once
// A role's step as flat operations with prices: what the player executes for every rank of the role. Bodies without
// traffic on shared wires become one operation; runs of such operations become one.

#include <array>
#include <cstdint>
#include <vector>

#include "core/play/backend.hpp"

namespace rehearse {

struct PlayOp {
  /// `launch`: the host's launch after it waited for the device; on no stream.
  enum class Kind : std::uint8_t { compute, timer, collective, send, receive, launch };
  Kind kind = Kind::compute;
  StreamId stream = 0;
  TimeCategory category = TimeCategory::matmul;  ///< Of waiting for it, when it is no computation.
  std::uint16_t cause_streams = 0;               ///< Bit per stream whose activity explains a wait for this operation.
  double duration = 0;                           ///< Compute and timers: seconds alone.
  double sm_sensitivity = 0, hbm_sensitivity = 0;
  std::int32_t price = -1;                        ///< Compute: index into CompiledRole::breakdowns.
  std::int32_t first_entry = 0, entry_count = 0;  ///< Range in CompiledRole::parts.
  std::int32_t group = -1;   ///< Collectives: Program group; messages: index into CompiledRole::endpoints.
  std::int32_t ordinal = 0;  ///< Collectives: n-th call on this group in the role.
  CollectiveOp collective = CollectiveOp::all_reduce;
  bool packed = false;                               ///< Collectives: CollectiveTask::packed.
  bool direct = false;                               ///< CollectiveTask::direct.
  double bytes = 0;                                  ///< Collectives and messages, of one rank.
  std::int32_t successors = 0, successor_count = 0;  ///< Range in CompiledRole::successors.
  std::int32_t dependencies = 0;
  std::int32_t step = 0;
};

struct CompiledRole {
  /// One call of a body within a (merged) operation; `task` >= 0 names one task of it.
  struct Part {
    std::int32_t entry;
    std::int32_t task;
    double duration;
  };
  struct Endpoint {
    std::int32_t edge;
    std::int32_t group;
    std::int32_t peer;
  };
  std::vector<PlayOp> ops;
  std::vector<std::int32_t> successors;
  std::vector<Part> parts;
  std::vector<Breakdown> breakdowns;
  std::vector<Endpoint> endpoints;
  std::vector<Breach> breaches;  ///< Prices below the roofline.
};

/// Says which bodies are one piece of work, where that is not left to is_closed().
class WholeBodies {
 public:
  struct Call {
    int body;
    int rank;
    const ExprContext& at;
    bool varies;   ///< Calls of the body may differ.
    int launches;  ///< CostModel::price_body
  };
  virtual ~WholeBodies() = default;
  /// What the body takes, or null where it is issued task by task. Valid until the next call.
  virtual const PricedBody* price(const Call& call) = 0;
  /// Two calls whose segments are issued in turn, the second's first.
  struct Pair {
    PricedBody both;
    std::array<Seconds, 2> begin, end;  ///< Of the first call's tasks, and of the second's, from the pair's begin.
  };
  virtual const Pair* price_pair(const Call& first, const Call& second) = 0;
};

/// One past the last task of segment `i` of the body; segments that it doesn't have are empty.
[[nodiscard]] std::size_t end_of_segment(const Body& body, std::size_t i);

/// Compiles all steps of the role of `rank`. `whole` may be null.
///   host_wait  what is issued later starts after the entry or task has ended and a launch, which nothing hides any
///   more. graph      entries in a row with one number are one launch: the kernels in them cost the host nothing else.
///   interleave the two entries' segments are issued in turn, so that kernels of one run beside communication of the
///   other.
/// Throws Error (usage) for interleaved entries that are no neighbours, or of which one waits for the other.
CompiledRole compile_role(const Program& program, const CostModel& cost, int rank, const RunOptions& options,
                          WholeBodies* whole = nullptr);

}  // namespace rehearse
