#pragma once
// What follows a stage's last pass, as a list of operations in the order in which they are begun, with all that does
// not depend on the moment worked out beforehand. Runs of kernels, and of gathers, are one operation.

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/estimate/estimate_lane.hpp"
#include "core/estimate/quick/pass_calls.hpp"

namespace rehearse {

/// Calls that span stages, numbered alike on all of them.
using Meetings = std::map<std::pair<int, int>, int>;  ///< By group and how many calls of the group came before.

struct TailOperation {
  enum class Kind : unsigned char { kernels, transfer, other, join } kind = Kind::join;
  StreamId stream = 0;
  bool after_pass = false;        ///< Begins after the last kernel of the passes ...
  std::uint32_t after_calls = 0;  ///< ... after the calls of passes on these sides (a bit each) ...
  bool after_held = false;        ///< ... after a blocking message.
  int meeting = -1;
  TimeCategory category = TimeCategory::exposed_dp;
  ComputeWork work;  ///< Its seconds stand for all kinds.
  Interference load;
  std::vector<int> after;  ///< Earlier operations.
};

struct QuickTail {
  std::vector<TailOperation> operations;
  /// Operation whose end is the event; those that the next step waits for.
  std::vector<std::pair<EventId, int>> ends;
  Breakdown kernels;
  int streams = 0;
  std::vector<StreamId> sides;  ///< As side_streams().
};

/// Compiles what `stage` does from its entry `stage.tail` on. `calls` are those that passes set off;
/// `needed` those that the next step waits for. Groups that span stages are numbered in `meetings`.
[[nodiscard]] QuickTail compile_tail(const Program& program, const Stage& stage, EstimatePrices& prices,
                                     const std::vector<CallEnd>& calls, const std::vector<EventId>& needed,
                                     Meetings& meetings);

/// Where one stage stands in its tail.
struct TailState {
  StageLane lane;
  std::vector<double> ends;     ///< By operation.
  std::vector<double> streams;  ///< Free from then on.
  double passes_end = 0;
  std::array<double, kSides> side_ends{};  ///< Of the calls of passes.
  std::size_t next = 0;
  bool posted = false;
  /// End of everything; after walk_tails.
  [[nodiscard]] double end() const;
};

/// A call that several stages take part in.
struct TailMeeting {
  int arrived = 0;
  double begin = 0;
};

/// Plays the tails of stages from where `states` say: lane, side_ends. `sharing` says how many of the tails take part
/// in each meeting; `meetings` is scratch.
void walk_tails(const std::vector<const QuickTail*>& tails, const std::vector<int>& sharing,
                std::vector<TailMeeting>& meetings, std::vector<TailState>& states);

}  // namespace rehearse
