#pragma once
// Calls that passes set off or wait for, whatever they are: gathers of sliced parameters, reductions after every
// microbatch, storage given back between blocks. Read off a lowered stage, as the entries between its blocks.

#include <array>
#include <cstdint>
#include <vector>

#include "core/estimate/estimate_prices.hpp"
#include "core/estimate/quick/pass_memory.hpp"
#include "core/estimate/quick/pass_part.hpp"

namespace rehearse {

/// Streams beside the compute stream (side_streams) that a lane keeps: what more there are, calls of a pass may not
/// use.
inline constexpr int kSides = 5;

inline constexpr int kPasses = 4;  ///< Values of Pass.

/// Tasks that a call may have: CallTask::after has a bit for each.
inline constexpr std::size_t kMostCallTasks = 32;

/// One task of a call, or several in a row on one stream.
struct CallTask {
  int side = 0;  ///< Index into side_streams(); -1 for the compute stream.
  double seconds = 0;
  Interference load;        ///< What a collective takes from kernels beside it.
  std::uint32_t after = 0;  ///< Bit per earlier task of the call.
};

/// A call among the blocks of a pass, which are counted in the order of the pass.
struct PassCall {
  static constexpr int kBegin = -1;    ///< The end of the pass before ...
  static constexpr int kEarly = -2;    ///< ... or of the block before its last,
  static constexpr int kNothing = -3;  ///< or no moment of this step.

  int at = 0;            ///< Issued before this block, or behind the one before it.
  bool behind = false;   ///< It belongs to the block before.
  int after = kNothing;  ///< Begins after this block's end.
  int needed = -1;       ///< The block that waits for it; -1 for none.
  bool holds = false;    ///< Whatever block comes next waits for it.
  int need = -1;         ///< It waits for this operation of the tail of the step before; -1 for none.
  int follows = -1;      ///< It waits for this call of the list; -1 for none.
  bool gated = false;    ///< It waits for what held back the pass's first block.
  std::vector<CallTask> tasks;
  MemoryCall memory;
  bool copies = false;  ///< Ends with a copy to or from the host.

  [[nodiscard]] int owner() const { return behind ? at - 1 : needed; }
};

/// In the order of issue.
struct PassCalls {
  std::vector<PassCall> all;
  /// Those that take time.
  struct Timed {
    int at, after, needed, need;
    int follows;                ///< Index into `timed`.
    bool holds, gated, copies;  ///< `copies`: what waits for it waits for a copy.
    std::uint32_t first_task, task_count;
  };
  std::vector<Timed> timed;
  std::vector<int> timed_at;  ///< By call: index into `timed`; -1 for those that take no time.
  std::vector<CallTask> tasks;
  std::uint32_t sides = 0;   ///< On which `tasks` are, a bit each.
  std::uint32_t early = 0;   ///< Those of calls that may begin before the pass.
  bool asks_early = false;   ///< Some call begins with kEarly.
  bool asks_before = false;  ///< Some call waits for the tail of the step before.

  void add(PassCall call);
};

/// The event with which a call ends, and the sides on which it had tasks (a bit each).
struct CallEnd {
  EventId event;
  std::uint32_t sides;
};

/// Those of a stage's passes, by kind of pass, chunk of the stage, and how many of its kind came before.
struct StageCalls {
  bool each = false;  ///< Whether there are any between first and last passes.
  bool complete = true;
  std::array<std::vector<std::vector<PassCalls>>, kPasses> passes;
  std::array<std::vector<std::vector<bool>>, kPasses> paired;  ///< Likewise: those that came in pairs were not read.
  Breakdown kernels;                                           ///< Of all calls of the passes above.
  std::vector<CallEnd> ends;
  bool of_blocks = false;  ///< Whether calls move what blocks keep, so that microbatch and recomputation decide them.
};

/// Reads the entries of `stage` before its tail. Not complete where something is none of the above. `needed` collects
/// the events of the step before that calls wait for; PassCall::need then is an index into it.
[[nodiscard]] StageCalls read_calls(const Program& program, const StagePasses& passes, const Stage& stage,
                                    EstimatePrices& prices, std::vector<EventId>& needed);

/// The calls of a pass of `count` of the stage's blocks from `base` on, counted from there.
[[nodiscard]] PassCalls part_of(const PassCalls& calls, int base, int count);

}  // namespace rehearse
