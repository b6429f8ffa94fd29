// ZB-H1 (Qi et al. 2023, sec. 2.2): 1F1B with backward in two halves. The stage before waits for the input gradient
// only; weight gradients wait where they fill the bubble: on stage i the first runs after i+1 input gradients, and what
// is left at the end. Bubble (p-1)(tF + tB - tW), a third of 1F1B's for equal halves, and at most 1F1B's largest
// memory, p microbatches, now on every stage (Table 1).

#include <algorithm>

#include <fmt/format.h>

#include "core/schedule/one_chunk.hpp"

namespace rehearse {

namespace {

class ZeroBubbleH1 final : public Schedule {
 public:
  void check(const PipelineShape& shape) const override {
    check_one_chunk("zb_h1", shape);
    if (shape.microbatches < shape.stages)
      throw Error(
          ErrorKind::usage,
          fmt::format("schedule zb_h1 fills its bubble with other microbatches' passes: microbatches({}) < pp({})",
                      shape.microbatches, shape.stages),
          "strategy.schedule", "use at least pp microbatches, or set strategy.schedule to 1f1b");
  }
  bool splits_backward() const override { return true; }

  std::vector<Slot> order(int stage, const PipelineShape& shape) const override {
    const int m = shape.microbatches;
    std::vector<Slot> out;
    int forwards = 0, weights = 0;
    while (forwards < shape.stages - 1 - stage) out.push_back({Pass::forward, stage, forwards++});
    for (int i = 0; i < m; ++i) {
      if (forwards < m) out.push_back({Pass::forward, stage, forwards++});
      out.push_back({Pass::backward_input, stage, i});
      if (i >= stage) out.push_back({Pass::backward_weight, stage, weights++});
    }
    while (weights < m) out.push_back({Pass::backward_weight, stage, weights++});
    return out;
  }

  /// (p-1)(tF + tB - tW) idle of m (tF + tB + tW).
  double bubble_ratio(const PipelineShape& shape, const PassTimes& t) const override {
    return (shape.stages - 1) * (t.forward + t.backward_input - t.backward_weight) / (shape.microbatches * t.all());
  }
  /// A weight half longer than the passes it stands between delays them.
  bool states_bubble(const PassTimes& t) const override {
    return t.backward_weight <= std::min(t.forward, t.backward_input);
  }
  int chunks_in_flight(int, const PipelineShape& shape) const override { return shape.stages; }
};

const bool registered_zb_h1 =
    schedules().add({"zb_h1",
                     "1F1B with weight gradients in its bubble: (p-1)(tF+tB-tW), keeps p microbatches on every stage",
                     {},
                     std::make_shared<ZeroBubbleH1>()});

}  // namespace

}  // namespace rehearse
