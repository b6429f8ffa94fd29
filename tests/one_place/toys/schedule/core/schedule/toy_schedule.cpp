// GPipe of two microbatches or more.

#include "core/schedule/one_chunk.hpp"

namespace rehearse {

namespace {

class ToySchedule final : public Schedule {
 public:
  void check(const PipelineShape& shape) const override {
    check_one_chunk("toy_schedule", shape);
    if (shape.microbatches < 2)
      throw Error(ErrorKind::usage, "toy_schedule plays with two microbatches or more", "strategy.schedule",
                  "set strategy.schedule to gpipe");
  }
  std::vector<Slot> order(int stage, const PipelineShape& shape) const override {
    std::vector<Slot> out;
    for (int m = 0; m < shape.microbatches; ++m) out.push_back({Pass::forward, stage, m});
    for (int m = 0; m < shape.microbatches; ++m) out.push_back({Pass::backward, stage, m});
    return out;
  }
  double bubble_ratio(const PipelineShape& shape, const PassTimes&) const override {
    return static_cast<double>(shape.stages - 1) / shape.microbatches;
  }
  int chunks_in_flight(int, const PipelineShape& shape) const override { return shape.microbatches; }
};

[[maybe_unused]] const bool registered_toy_schedule =
    schedules().add({"toy_schedule",
                     "all forwards, then all backwards, of two microbatches or more",
                     {},
                     std::make_shared<ToySchedule>()});

}  // namespace

}  // namespace rehearse
