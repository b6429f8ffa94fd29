// GPipe (Huang et al. 2019): all forwards, then all backwards. Bubble (p-1)/m; every microbatch's activations are kept.

#include "core/schedule/one_chunk.hpp"

namespace rehearse {

namespace {

class GPipe final : public Schedule {
 public:
  void check(const PipelineShape& shape) const override { check_one_chunk("gpipe", shape); }
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

const bool registered_gpipe =
    schedules().add({"gpipe",
                     "all forwards, then all backwards; bubble (p-1)/m, keeps every microbatch's activations",
                     {},
                     std::make_shared<GPipe>()});

}  // namespace

}  // namespace rehearse
