// DualPipe (DeepSeek-V3 technical report 2024, sec. 3.2.1): microbatches enter at both ends. Every chunk stands twice:
// stage i holds chunk i for those that go down and chunk p-1-i for those that go up, so that parameters are kept twice.
// In the middle of the step a forward of one direction is interleaved with a backward of the other, each computing
// while the other communicates. Bubble (p/2 - 1)(F&B + B - 3W) and p+1 microbatches alive (Table 2), where F&B is the
// pair, B a whole backward and W its weight half.

#include <algorithm>
#include <array>
#include <deque>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/schedule/one_chunk.hpp"

namespace rehearse {

namespace {

/// One stage's order under construction. Way 0 is the direction whose end of the pipeline is nearer.
class DualOrder {
 public:
  DualOrder(int stage, const PipelineShape& shape)
      : stage_(stage), shape_(shape), swapped_(stage >= shape.stages / 2 ? 1 : 0) {}

  void forward(int way) { add(Pass::forward, way, forwards_); }
  void backward(int way) { add(Pass::backward, way, backwards_); }
  /// Leaves the weight half for later.
  void input(int way) {
    add(Pass::backward_input, way, backwards_);
    Slot weight = out_.back();
    weight.pass = Pass::backward_weight;
    waiting_.push_back(weight);
  }
  void weight() {
    out_.push_back(waiting_.front());
    waiting_.pop_front();
  }
  void pair(int forward_way, int backward_way) {
    forward(forward_way);
    backward(backward_way);
    out_.back().paired = true;
  }
  [[nodiscard]] std::vector<Slot> take() { return std::move(out_); }

 private:
  void add(Pass pass, int way, std::array<int, 2>& done) {
    const int copy = way ^ swapped_;
    int& count = nth(done, copy);
    out_.push_back(
        {pass, copy == 0 ? stage_ : shape_.stages - 1 - stage_, count++ + copy * (shape_.microbatches / 2), copy});
  }

  int stage_;
  PipelineShape shape_;
  int swapped_;
  std::array<int, 2> forwards_{}, backwards_{};  ///< By copy.
  std::deque<Slot> waiting_;
  std::vector<Slot> out_;
};

class DualPipe final : public Schedule {
 public:
  void check(const PipelineShape& shape) const override {
    check_one_chunk("dualpipe", shape);
    if (shape.stages % 2 != 0)
      throw Error(ErrorKind::usage, fmt::format("schedule dualpipe mirrors its stages: pp({}) is odd", shape.stages),
                  "strategy.pp", "choose an even strategy.pp");
    if (shape.microbatches % 2 != 0)
      throw Error(ErrorKind::usage,
                  fmt::format("schedule dualpipe sends half of the microbatches each way: microbatches({}) is odd",
                              shape.microbatches),
                  "strategy.schedule",
                  "change training.global_batch or strategy.microbatch so that their number is even");
    if (shape.microbatches < 2 * shape.stages)
      throw Error(ErrorKind::usage,
                  fmt::format("schedule dualpipe fills the pipeline from both ends: microbatches({}) < 2 * pp({})",
                              shape.microbatches, shape.stages),
                  "strategy.schedule", "use more microbatches or fewer stages, or set strategy.schedule to zb_h1");
  }
  bool splits_backward() const override { return true; }
  int copies() const override { return 2; }
  int stage_of(int chunk, const PipelineShape& shape, int copy) const override {
    return copy == 0 ? chunk : shape.stages - 1 - chunk;
  }

  std::vector<Slot> order(int stage, const PipelineShape& shape) const override {
    const int from_end = std::min(stage, shape.stages - 1 - stage);
    const int to_middle = shape.stages / 2 - 1 - from_end;
    DualOrder o(stage, shape);
    begin(o, from_end, to_middle);
    for (int i = 0; i < shape.microbatches / 2 - shape.stages + from_end + 1; ++i) {
      // The first backward in the middle follows a forward that has just turned into it.
      if (i == 0 && to_middle == 0) {
        o.forward(0);
        o.backward(1);
      } else {
        o.pair(0, 1);
      }
      o.pair(1, 0);
    }
    end(o, from_end, to_middle);
    return o.take();
  }

  /// F&B counts as tF + tB + tW, the two after each other: what interleaving gains comes from the work, not from the
  /// order.
  double bubble_ratio(const PipelineShape& shape, const PassTimes& t) const override {
    const int steps = shape.stages / 2 - 1;
    return steps * (t.forward + 2 * t.backward_input - t.backward_weight) / (shape.microbatches * t.all());
  }
  bool states_bubble(const PassTimes& t) const override {
    return t.forward == t.backward_input && t.backward_weight <= t.forward;
  }
  int chunks_in_flight(int, const PipelineShape& shape) const override { return shape.stages + 1; }

 private:
  static void begin(DualOrder& o, int from_end, int to_middle) {
    for (int i = 0; i < 2 * to_middle; ++i) o.forward(0);
    for (int i = 0; i <= from_end; ++i) {
      o.forward(0);
      o.forward(1);
    }
    for (int i = 0; i < to_middle; ++i) {
      o.input(1);
      o.weight();
      o.forward(1);
    }
  }
  /// The last backwards; from the middle of them on, weight halves wait.
  static void end(DualOrder& o, int from_end, int to_middle) {
    for (int i = 0; i < to_middle; ++i) {
      o.backward(1);
      o.pair(1, 0);
    }
    const int passes = 2 * (from_end + 1), whole = from_end + 1;
    for (int i = 0; i < passes; ++i) {
      const int way = i % 2 == 0 ? 1 : 0;
      if (i < whole)
        o.backward(way);
      else
        o.input(way);
    }
    for (int i = 0; i < to_middle; ++i) {
      o.weight();
      o.input(0);
    }
    for (int i = 0; i <= from_end; ++i) o.weight();
  }
};

const bool registered_dualpipe =
    schedules().add({"dualpipe",
                     "microbatches from both ends, two copies of every chunk, forward and backward "
                     "interleaved; bubble (p/2-1)(F&B+B-3W)",
                     {},
                     std::make_shared<DualPipe>()});

}  // namespace

}  // namespace rehearse
