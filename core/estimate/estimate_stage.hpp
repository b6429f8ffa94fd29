#pragma once
// One role of a Program as the closed form sees it: priced passes per chunk, gradient buckets, and what follows the
// last pass.

#include <array>
#include <map>
#include <vector>

#include "core/config/settings/forward.hpp"
#include "core/estimate/estimate_prices.hpp"
#include "core/schedule/schedule.hpp"

namespace rehearse {

/// A collective that a pass sets off on the way, after `offset` seconds of its compute.
struct SideCall {
  double offset = 0;
  Transfer transfer;
  TimeCategory category = TimeCategory::exposed_dp;
  EventId event = -1;
};

/// An event of the step before that the pass needs after `offset` seconds of its compute.
struct LateNeed {
  double offset = 0;
  EventId event = -1;
};

/// A copy of tokens or labels to the device that the pass needs after `offset` seconds of its compute.
struct InputCopy {
  double offset = 0;
  double seconds = 0;
};

/// One pass of one chunk through one stage.
struct StagePass {
  ComputeWork work;
  std::vector<InputCopy> inputs;
  int peer = -1;  ///< Stage that gets the result; -1 when it stays here.
  bool receives = false;
  double incoming_seconds = 0;   ///< What it receives is so long on the wire.
  ComputeWork prepare;           ///< Before sending: cutting the message into slices.
  Transfer message;              ///< To `peer`.
  Transfer unpack;               ///< After receiving, before compute may start: gathering the slices ...
  bool unpacks_in_line = false;  ///< ... on a stream that the pass before keeps until its end.
  std::vector<SideCall> calls;   ///< In the last microbatch only.
  std::vector<LateNeed> needs;   ///< In the first microbatch only.
};

/// Weight gradients that wait for the last pass (StrategySettings::deferred_head_gradients).
struct DeferredWork {
  int chunk = -1;        ///< Whose backward leaves them; -1: none does.
  int microbatches = 0;  ///< The first so many.
  ComputeWork each;      ///< One microbatch's.
  ComputeWork backward;  ///< The backward pass without them.
  [[nodiscard]] bool leaves(const Slot& slot) const {
    return slot.chunk == chunk && slot.pass == Pass::backward && slot.microbatch < microbatches;
  }
};

struct Stage {
  int role = 0;
  std::vector<Slot> order;                         ///< Of the full step.
  std::map<int, std::array<StagePass, 2>> chunks;  ///< Forward and backward by chunk.
  DeferredWork deferred;
  /// First entry after the last pass, and after the work that waited for it.
  int tail = 0;
};

/// What a body does in a pass, told by its tasks.
struct PassPart {
  enum class Kind { pass, send, receive, input, call } kind = Kind::call;
  int task = -1;  ///< The message.
};
[[nodiscard]] PassPart part_of(const Body& body);

/// Stages by pipeline coordinate. Throws Error (unavailable) for schedules that split the backward pass or copy chunks.
[[nodiscard]] std::vector<Stage> price_stages(const Program& program, const StrategySettings& settings,
                                              EstimatePrices& prices);

}  // namespace rehearse
