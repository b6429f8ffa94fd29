// 1F1B whose steady state runs the forward of one microbatch interleaved with the backward of another, block by block: what tokens wait for on
// their way to experts and back is hidden under the other pass (NVIDIA/Megatron-LM, pipeline_parallel/combined_1f1b.py,
// --overlap-moe-expert-parallel-comm). Chunks as in interleaved 1F1B, with one more forward ahead, so that the two are of different microbatches.
// A pair hands on both of its results when both are done, so that one chunk per stage needs the warm-up of several. Bubble (p-1)/(v m).

#include <algorithm>

#include <fmt/format.h>

#include "core/schedule/schedule.hpp"

namespace rehearse {

namespace {

class Paired final : public Schedule {
 public:
  void check(const PipelineShape& shape) const override {
    if (shape.virtual_stages > 1 && shape.microbatches % shape.stages != 0)
      throw Error(ErrorKind::usage,
                  fmt::format("schedule paired_1f1b sends microbatches in groups of pp where there are several chunks: microbatches({}) % pp({}) = {} != 0",
                              shape.microbatches, shape.stages, shape.microbatches % shape.stages),
                  "strategy.schedule", "change training.global_batch, strategy.microbatch or strategy.dp so that pp divides the microbatches");
  }

  [[nodiscard]] bool pairs() const override { return true; }

  std::vector<Slot> order(int stage, const PipelineShape& shape) const override {
    const int total = shape.microbatches * shape.virtual_stages;
    const int ahead = warmup(stage, shape);
    std::vector<Slot> out;
    out.reserve(static_cast<std::size_t>(2 * total));
    for (int i = 0; i < ahead; ++i) out.push_back(slot(Pass::forward, i, stage, shape));
    for (int i = 0; i < total; ++i) {
      const bool pair = ahead + i < total;
      if (pair) out.push_back(slot(Pass::forward, ahead + i, stage, shape));
      out.push_back(slot(Pass::backward, i, stage, shape));
      out.back().paired = pair;
    }
    return out;
  }

  double bubble_ratio(const PipelineShape& shape, const PassTimes&) const override {
    return static_cast<double>(shape.stages - 1) / (static_cast<double>(shape.virtual_stages) * shape.microbatches);
  }

  int chunks_in_flight(int stage, const PipelineShape& shape) const override {
    return std::min(shape.microbatches * shape.virtual_stages, warmup(stage, shape) + 1);
  }

 private:
  static int warmup(int stage, const PipelineShape& shape) {
    const int total = shape.microbatches * shape.virtual_stages;
    return std::min(total, 2 * (shape.stages - 1 - stage) + (shape.virtual_stages - 1) * shape.stages + 1);
  }
  /// As interleaved_1f1b; with one chunk per stage, microbatches in their order.
  static Slot slot(Pass pass, int i, int stage, const PipelineShape& shape) {
    const int p = shape.stages, v = shape.virtual_stages;
    if (v == 1) return {pass, stage, i};
    const int group = i / (p * v);
    const int local_chunk = (i % (p * v)) / p;
    const int chunk = pass == Pass::forward ? local_chunk : v - 1 - local_chunk;
    return {pass, chunk * p + stage, group * p + i % p};
  }
};

const bool registered = schedules().add({"paired_1f1b", "1F1B over v chunks per stage, a forward and a backward block by block at once; bubble (p-1)/(v m)",
                                         {{"virtual_stages", "model chunks per pipeline rank", "1"}}, std::make_shared<Paired>()});

}  // namespace

}  // namespace rehearse
