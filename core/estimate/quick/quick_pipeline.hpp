#pragma once
// The schedule's recurrence over a known order of passes, a few additions and comparisons per pass: a pass begins with
// the later of the end of the pass before it on its stage and the arrival of what it needs. What messages cost the
// kernels beside them is booked with the pass that sends one and the pass that needs one.

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/estimate/quick/quick_mesh.hpp"
#include "core/estimate/quick/quick_order.hpp"

namespace rehearse {

/// One stage's clock and books, in seconds. What every pass asks for comes first, in one line of a cache.
struct alignas(64) QuickLane {
  double free = 0;       ///< End of the last kernel.
  double sent_end = 0;   ///< End of the last message sent ...
  double sent_lost = 0;  ///< ... beside which kernels lose this share of their rate.
  double sides_end = 0;  ///< Of the last call beside the passes, on any side.
  double slowed = 0, exposed_pp = 0;
  double held = 0;  ///< No kernel starts before: a blocking message is still leaving.

  /// A stream beside the compute stream: the end of its last call, what kernels lose beside it, and the time they take
  /// longer by where it lasts, lost / (1 - lost).
  struct Side {
    double free = 0, lost = 0, stretch = 0;
    Interference load;
  };
  std::array<Side, kSides> sides;
  double input_done = 0;
  double trailing = 0;  ///< Seconds before `free` in which no collective of the work's own ran.
  double exposed_tp = 0, exposed_dp = 0, exposed_copy = 0;
  double gate = 0;            ///< No block begins before ...
  bool gate_of_copy = false;  ///< ... the end of a copy to or from the host.
  double before_last = 0;     ///< End of the block before the last.
  double casts = 0;           ///< Kernels of calls.

  /// The compute stream idles until `until`; of the gap at most `moving` counts as `exposed`, one of the books.
  [[gnu::always_inline]] inline void idle(double until, double moving, double& exposed) {
    const double gap = until - free;
    if (gap <= 0) return;
    exposed += std::min(std::max(moving, 0.0), gap);
    free = until;
  }

  /// `seconds` of kernels, slowed by what runs beside; `lost` more are lost already.
  [[gnu::always_inline]] inline void compute(double seconds, double lost) {
    const double begin = free;
    if (sent_end > begin) lost += std::min(sent_end - begin, seconds) * sent_lost;
    if (sides_end > begin)
      for (const Side& side : sides)
        if (side.free > begin) lost += std::min((side.free - begin) * side.lost, seconds * side.stretch);
    slowed += lost;
    free = begin + seconds + lost;
  }
};

/// The state of a lane in which a pass with calls of its own begins. Moments are told from the one at which the kernels
/// before it end: all of the pass moves with that.
struct PassState {
  double needs = 0;  ///< Of the message that it waits for.
  double arrived = 0, slowed = 0, gate = 0, before_last = 0, sent_end = 0, sent_lost = 0;
  std::array<double, kSides> free{}, lost{};
  bool gate_of_copy = false;
};

/// What such a pass did to its lane, from a state that later passes of its kind may meet again.
struct PassMove {
  std::uint64_t number = 0;  ///< Of the scenario; 0 while nothing is known.
  PassState from;
  QuickLane after;     ///< Books: what the pass adds to them.
  bool gated = false;  ///< It moves the gate.
};

/// Pairs of passes, each worked out when it is first asked for.
class ChunkPairs {
 public:
  ChunkPairs(const QuickBlocks& blocks, const ChunkLayout& layout)
      : blocks_(blocks), layout_(layout), count_(layout.contents().size()), pairs_(count_ * count_ * 2) {}
  /// By content of the layout; `first`: of the step.
  [[nodiscard]] const ChunkPair& of(int forward, int backward, bool first) {
    auto& known = nth(pairs_, (static_cast<std::size_t>(forward) * count_ + static_cast<std::size_t>(backward)) * 2 +
                                  (first ? 1 : 0));
    if (!known)
      known = std::make_unique<const ChunkPair>(
          blocks_.pair(nth(layout_.contents(), forward), nth(layout_.contents(), backward), first));
    return *known;
  }

 private:
  const QuickBlocks& blocks_;
  const ChunkLayout& layout_;
  std::size_t count_;
  std::vector<std::unique_ptr<const ChunkPair>> pairs_;
};

/// What one scenario's passes cost.
struct QuickCosts {
  /// A line of a cache each, as channels are: found by a shift, and read at once.
  struct alignas(64) Pass {
    const ChunkPass* pass = nullptr;
    double seconds = 0;  ///< With the preparation of its message.
    double prepare = 0;
    double unpack = 0;
    bool plain = true;  ///< No inputs, nothing to unpack.
  };
  std::vector<Pass> passes;                       ///< kPassKinds * content + pass_kind().
  std::array<const MeshMessages*, 2> messages{};  ///< Activations, and their gradients.
  const QuickMesh* mesh = nullptr;
  const ChunkLayout* layout = nullptr;
  int places = 1;  ///< Chunks of a stage.
  bool blocking = false;
  bool back = false;            ///< Some chunks run back along the stages.
  bool several = false;         ///< The first backward of a step differs from others.
  std::uint64_t number = 0;     ///< Of the scenario: each has another.
  ChunkPairs* pairs = nullptr;  ///< Where the schedule pairs passes.
  /// By kind of stage, chunk of the stage, Pass, and whether it is the first and the last of the step; empty where
  /// passes have no calls of their own.
  std::vector<const PassCalls*> calls;
  [[nodiscard]] const PassCalls& calls_of(int kind, int place, int pass, bool first, bool last) const {
    return *nth(calls, ((kind * places + place) * kPasses + pass) * 3 + (first ? 0 : last ? 2 : 1));
  }
};

/// By kind of stage of the mesh: what of the step before is still to come, in the ends of its tail's operations.
using TailEnds = std::vector<std::vector<double>>;

class QuickPipeline {
 public:
  /// Plays `order`, which is of `shape`, from `lanes`, one per kind of stage, to the end of every stage's last pass.
  /// Where stages are fewer than those of the mesh, or chunks than `virtual_stages`, the middle is shorter. `before`
  /// may be empty.
  void play(const QuickOrder& order, const PipelineShape& shape, const QuickCosts& costs, const TailEnds& before,
            std::vector<QuickLane>& lanes);
  /// The same of two orders, which leave the stages at `near` and at `lanes`.
  void play(const ForkedOrder& orders, const PipelineShape& shape, const QuickCosts& costs, const TailEnds& before,
            std::vector<QuickLane>& near, std::vector<QuickLane>& lanes);

 private:
  void begin(int messages, const PipelineShape& shape, const QuickCosts& costs, const TailEnds& before,
             const std::vector<QuickLane>& lanes);
  void play_all(const std::vector<Visit>& visits);
  template <bool kCalls>
  void play_visits(const std::vector<Visit>& visits);
  void end(std::vector<QuickLane>& lanes) const;
  void wait_long(const Visit& v, const QuickCosts::Pass& pass, double arrived, QuickLane& lane);
  void first_forward(const Visit& v, const ChunkPass& pass, QuickLane& lane) const;
  void last_backward(const Visit& v, const QuickCosts::Pass& pass, QuickLane& lane);
  double reduce_behind(const Visit& v, const QuickCosts::Pass& pass, QuickLane& lane);
  void wait_for_input(const Visit& v, const QuickCosts::Pass& pass, double arrived, QuickLane& lane);
  void with_calls(const Visit& v, const QuickCosts::Pass& pass, double arrived, double slowed, QuickLane& lane,
                  const Visit* ahead = nullptr);
  void repeat_calls(const Visit& v, const QuickCosts::Pass& pass, double arrived, double slowed, QuickLane& lane);
  [[nodiscard]] const PassCalls& calls_of(const Visit& v) const;
  void play_pair(const Visit& ahead, const Visit& back, QuickLane& lane);
  [[nodiscard]] double lost_beside(const ComputeWork& work, const Interference& load);
  double issue(const PassCalls::Timed& call, const CallTask* tasks, const ComputeWork& work, double from,
               QuickLane& lane);
  [[nodiscard]] int kind_of_stage(int stage) const;
  [[nodiscard]] int place_of(const Visit& v) const;
  [[nodiscard]] const Transfer& message(int channel, int stage) const;
  void set_channels();

  const QuickCosts* costs_ = nullptr;
  const TailEnds* before_ = nullptr;
  int stages_ = 1, places_ = 1, channels_each_ = 2;
  std::vector<QuickLane> lanes_;
  std::vector<double> arrival_;
  /// Messages made and needed by the passes of one stage in one direction: seconds, and the share of their rate that
  /// kernels beside them lose.
  struct alignas(64) Channel {
    double free = 0, sends = 0, sends_lost = 0, needs = 0, needs_lost = 0, waits = 0;
  };
  void first_or_last(const Visit& v, const QuickCosts::Pass& pass, double slowed, QuickLane& lane);
  static double leave(double left, Channel& channel, QuickLane& lane);
  void follow(const Visit& v, const QuickCosts::Pass& pass, Channel& channel, QuickLane& lane);
  [[nodiscard]] static double slowed_by_message(const Channel& channel, double arrived, const QuickLane& lane);
  void send(const Visit& v, const QuickCosts::Pass& pass, double left, Channel& channel, QuickLane& lane);
  std::vector<Channel> channels_;  ///< channels_each_ * stage + Visit::channel.
  [[nodiscard]] Channel& channel_of(const Visit& v) { return nth(channels_, channels_each_ * v.stage + v.channel); }
  std::vector<QuickLane> forked_lanes_;
  std::vector<Channel> forked_channels_;
  struct Beside {
    const ComputeWork* work = nullptr;
    Interference load;
    double lost = 0;
  };
  Beside beside_;  ///< Asked last.
  /// What a chunk's last backward does, from where it begins, when no call runs there.
  struct LastBackward {
    const ChunkPass* pass = nullptr;
    double seconds = 0, until_call = 0;  ///< Of the pass; of those up to the first call that it sets off.
    double slowed = 0, lasts = 0;
    bool calls = false;
    QuickLane::Side side;
  };
  std::vector<LastBackward> last_backwards_;      ///< By kind of stage and chunk of the stage.
  std::vector<PassMove> moves_;                   ///< By kind of stage, chunk of the stage and Pass.
  std::uint64_t number_ = 0;                      ///< Of the scenario that they are of.
  std::array<std::vector<double>, 2> call_ends_;  ///< Of the pass at hand, or of both of a pair.
  std::vector<double> block_ends_, whole_;        ///< Of the pass at hand: ends of blocks, of what each needs.
  std::vector<char> whole_by_copy_;               ///< Likewise: whether it is a copy that ends last.
};

}  // namespace rehearse
