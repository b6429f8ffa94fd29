// ZB-V (Qi et al. 2023, sec. 6; V-ZB of Qi et al. 2024, "Pipeline Parallelism with Controllable Memory"): two chunks
// per stage in the shape of a V. Stage i holds chunks i and 2p-1-i, so that a microbatch turns round on the last stage
// and the first stage has both ends of the model, loss included. With equal passes no stage idles between its first
// pass and its last: stages end as much later as they began. Between steps that wait for one another that skew remains,
// (p-1) tF. Memory is 1F1B's on its first stage, 2p chunks of half the size, on every stage.

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/schedule/schedule.hpp"

namespace rehearse {

namespace {

/// One stage's order under construction; sides are 0 on the way down and 1 on the way up.
class VOrder {
 public:
  VOrder(int stage, const PipelineShape& shape)
      : chunk_{stage, 2 * shape.stages - 1 - stage}, microbatches_(shape.microbatches) {}

  void forward(int side) {
    if (forwards(side) < microbatches_) add(Pass::forward, side, 0);
  }
  void input(int side) { add(Pass::backward_input, side, 1); }
  void weight(int side) { add(Pass::backward_weight, side, 2); }
  void backward(int side) {
    input(side);
    weight(side);
  }
  void remaining_weights(int side) {
    while (done_[2][at(side)] < microbatches_) weight(side);
  }
  [[nodiscard]] int forwards(int side) const { return done_[0][at(side)]; }
  [[nodiscard]] std::vector<Slot> take() { return std::move(out_); }

 private:
  static std::size_t at(int side) { return static_cast<std::size_t>(side); }
  void add(Pass pass, int side, std::size_t kind) { out_.push_back({pass, chunk_[at(side)], done_[kind][at(side)]++}); }

  std::array<int, 2> chunk_;
  int microbatches_;
  std::array<std::array<int, 2>, 3> done_{};  ///< By kind of pass and side.
  std::vector<Slot> out_;
};

class ZeroBubbleV final : public Schedule {
 public:
  void check(const PipelineShape& shape) const override {
    if (shape.virtual_stages != 2)
      throw Error(ErrorKind::usage,
                  fmt::format("schedule zb_v folds the model once: two chunks per stage, not {}", shape.virtual_stages),
                  "strategy.virtual_stages", "set strategy.virtual_stages to 2, or strategy.schedule to zb_h1");
    if (shape.microbatches < 2 * shape.stages - 1)
      throw Error(ErrorKind::usage,
                  fmt::format("schedule zb_v starts with 2 pp - 1 = {} microbatches, and the step has {}",
                              2 * shape.stages - 1, shape.microbatches),
                  "strategy.schedule",
                  "use more microbatches or fewer stages, or set strategy.schedule to interleaved_1f1b");
  }
  bool splits_backward() const override { return true; }
  int stage_of(int chunk, const PipelineShape& shape, int) const override {
    return std::min(chunk, 2 * shape.stages - 1 - chunk);
  }

  std::vector<Slot> order(int stage, const PipelineShape& shape) const override {
    const int below = shape.stages - stage;  // Stages from this one to the turn.
    VOrder o(stage, shape);
    for (int i = 0; i < 2 * below - 1; ++i) o.forward(0);
    for (int i = 0; i < stage; ++i) {
      o.forward(1);
      o.forward(0);
    }
    for (int i = 0; i < below; ++i) {
      o.forward(1);
      o.backward(1);
    }
    while (o.forwards(1) < shape.microbatches) {
      o.forward(0);
      o.backward(0);
      o.forward(1);
      o.backward(1);
    }
    for (int i = 0; i < stage; ++i) {
      o.input(0);
      o.input(1);
    }
    for (int i = 0; i < below; ++i) {
      o.input(0);
      o.weight(0);
    }
    o.remaining_weights(1);
    o.remaining_weights(0);
    return o.take();
  }

  /// (p-1) max(tF, 2 (tB - tW)) idle of 2 m (tF + tB + tW).
  double bubble_ratio(const PipelineShape& shape, const PassTimes& t) const override {
    return (shape.stages - 1) * std::max(t.forward, 2 * (t.backward_input - t.backward_weight)) /
           (2 * shape.microbatches * t.all());
  }
  bool states_bubble(const PassTimes& t) const override {
    if (t.forward == t.backward_input) return t.backward_weight <= t.forward;
    return t.forward < t.backward_input && 2 * t.backward_weight <= t.backward_input;
  }
  int chunks_in_flight(int, const PipelineShape& shape) const override { return 2 * shape.stages; }
};

const bool registered_zb_v = schedules().add(
    {"zb_v",
     "two chunks per stage in a V, backward split; with equal passes no stage idles, keeps 2p half-size chunks",
     {{"virtual_stages", "model chunks per pipeline rank", "2"}},
     std::make_shared<ZeroBubbleV>()});

}  // namespace

}  // namespace rehearse
