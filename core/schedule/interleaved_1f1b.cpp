// Interleaved 1F1B (Narayanan et al. 2021, sec. 2.2.2): each rank holds v chunks; rank i holds chunks i, i+p, i+2p, ...
// Microbatches go through in groups of p per chunk. Bubble (p-1)/(v m).

#include <algorithm>

#include <fmt/format.h>

#include "core/schedule/schedule.hpp"

namespace rehearse {

namespace {

class Interleaved final : public Schedule {
 public:
  void check(const PipelineShape& shape) const override {
    if (shape.virtual_stages < 2)
      throw Error(ErrorKind::usage, "schedule interleaved_1f1b needs at least two chunks per stage", "strategy.virtual_stages",
                  "set strategy.virtual_stages to 2 or more, or strategy.schedule to 1f1b");
    if (shape.stages < 2)
      throw Error(ErrorKind::usage, "schedule interleaved_1f1b needs at least two stages", "strategy.pp",
                  "set strategy.pp to 2 or more, or strategy.schedule to 1f1b with virtual_stages 1");
    if (shape.microbatches % shape.stages != 0)
      throw Error(ErrorKind::usage,
                  fmt::format("schedule interleaved_1f1b sends microbatches in groups of pp: microbatches({}) % pp({}) = {} != 0",
                              shape.microbatches, shape.stages, shape.microbatches % shape.stages),
                  "strategy.schedule", "change training.global_batch, strategy.microbatch or strategy.dp so that pp divides the microbatches");
  }

  std::vector<Slot> order(int stage, const PipelineShape& shape) const override {
    const int total = shape.microbatches * shape.virtual_stages;
    const int ahead = warmup(stage, shape);
    std::vector<Slot> out;
    out.reserve(static_cast<std::size_t>(2 * total));
    for (int i = 0; i < ahead; ++i) out.push_back(slot(Pass::forward, i, stage, shape));
    for (int i = 0; i < total; ++i) {
      if (ahead + i < total) out.push_back(slot(Pass::forward, ahead + i, stage, shape));
      out.push_back(slot(Pass::backward, i, stage, shape));
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
    return std::min(total, 2 * (shape.stages - 1 - stage) + (shape.virtual_stages - 1) * shape.stages);
  }
  /// The i-th pass of its kind on any rank: groups of p microbatches walk the rank's chunks, backwards in reverse.
  static Slot slot(Pass pass, int i, int stage, const PipelineShape& shape) {
    const int p = shape.stages, v = shape.virtual_stages;
    const int group = i / (p * v);
    const int local_chunk = (i % (p * v)) / p;
    const int chunk = pass == Pass::forward ? local_chunk : v - 1 - local_chunk;
    return {pass, chunk * p + stage, group * p + i % p};
  }
};

const bool registered = schedules().add({"interleaved_1f1b", "1F1B over v chunks per stage; bubble (p-1)/(v m), microbatches a multiple of p",
                                         {{"virtual_stages", "model chunks per pipeline rank", "2 or more"}}, std::make_shared<Interleaved>()});

}  // namespace

}  // namespace rehearse
