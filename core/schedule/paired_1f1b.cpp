// 1F1B whose steady state runs the forward of one microbatch interleaved with the backward of another, block by block:
// what tokens wait for on their way to experts and back is hidden under the other pass (NVIDIA/Megatron-LM,
// pipeline_parallel/combined_1f1b.py,
// --overlap-moe-expert-parallel-comm). Chunks as in interleaved 1F1B, with one more forward ahead, so that the two are
// of different microbatches. A pair hands on both of its results when both are done, so that one chunk per stage needs
// the warm-up of several. Bubble (p-1)/(v m).

#include "core/schedule/interleaving.hpp"

namespace rehearse {

namespace {

class Paired final : public Interleaving {
 public:
  Paired() : Interleaving(1) {}
  void check(const PipelineShape& shape) const override {
    if (shape.virtual_stages > 1) check_groups("paired_1f1b", shape);
  }
  [[nodiscard]] bool pairs() const override { return true; }
};

const bool registered_paired_1f1b = schedules().add(
    {"paired_1f1b",
     "1F1B over v chunks per stage, a forward and a backward block by block at once; bubble (p-1)/(v m)",
     {{"virtual_stages", "model chunks per pipeline rank", "1"}},
     std::make_shared<Paired>()});

}  // namespace

}  // namespace rehearse
