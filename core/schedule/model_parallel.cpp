// Layers on several devices without a pipeline: one microbatch goes through all stages forward and all the way back
// before the next begins, so that one device works at a time. Each idles 1 - 1/p of the step, whatever the number of
// microbatches; the memory of one is kept.

#include "core/schedule/one_chunk.hpp"

namespace rehearse {

namespace {

class ModelParallel final : public Schedule {
 public:
  void check(const PipelineShape& shape) const override { check_one_chunk("model_parallel", shape); }
  std::vector<Slot> order(int stage, const PipelineShape& shape) const override {
    std::vector<Slot> out;
    for (int m = 0; m < shape.microbatches; ++m) {
      out.push_back({Pass::forward, stage, m});
      out.push_back({Pass::backward, stage, m});
    }
    return out;
  }
  double bubble_ratio(const PipelineShape& shape, const PassTimes&) const override { return shape.stages - 1; }
  int chunks_in_flight(int, const PipelineShape&) const override { return 1; }
};

const bool registered_model_parallel =
    schedules().add({"model_parallel",
                     "one microbatch at a time, one stage at work; bubble p-1, keeps one microbatch",
                     {},
                     std::make_shared<ModelParallel>()});

}  // namespace

}  // namespace rehearse
