// Interleaved 1F1B (Narayanan et al. 2021, sec. 2.2.2): each rank holds v chunks; rank i holds chunks i, i+p, i+2p, ...
// Microbatches go through in groups of p per chunk. Bubble (p-1)/(v m).

#include "core/schedule/interleaving.hpp"

namespace rehearse {

namespace {

class Interleaved final : public Interleaving {
 public:
  Interleaved() : Interleaving(0) {}
  void check(const PipelineShape& shape) const override {
    if (shape.virtual_stages < 2)
      throw Error(ErrorKind::usage, "schedule interleaved_1f1b needs at least two chunks per stage",
                  "strategy.virtual_stages", "set strategy.virtual_stages to 2 or more, or strategy.schedule to 1f1b");
    if (shape.stages < 2)
      throw Error(ErrorKind::usage, "schedule interleaved_1f1b needs at least two stages", "strategy.pp",
                  "set strategy.pp to 2 or more, or strategy.schedule to 1f1b with virtual_stages 1");
    check_groups("interleaved_1f1b", shape);
  }
};

const bool registered_interleaved_1f1b =
    schedules().add({"interleaved_1f1b",
                     "1F1B over v chunks per stage; bubble (p-1)/(v m), microbatches a multiple of p",
                     {{"virtual_stages", "model chunks per pipeline rank", "2 or more"}},
                     std::make_shared<Interleaved>()});

}  // namespace

}  // namespace rehearse
