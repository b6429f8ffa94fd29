// Pipeline parallelism: consecutive layers on different ranks, microbatches passed between them by the registered schedule.

#include <fmt/format.h>

#include "core/schedule/schedule.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

namespace {

class PipelineParallel final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override { return request.settings.pp > 1 || request.settings.virtual_stages > 1; }
  void check(const PlanRequest& request) const override {
    const auto& s = request.settings;
    schedules().at(s.schedule).value->check({s.pp, s.virtual_stages, request.microbatches});
    const int layers = request.workload.network.layers();
    const int chunks = s.pp * s.virtual_stages;
    if (request.workload.network.uneven()) {
      if (layers < chunks)
        throw Error(ErrorKind::usage, fmt::format("{} blocks are fewer than pp({}) * virtual_stages({}) = {}", layers, s.pp, s.virtual_stages, chunks), "strategy.pp",
                    "a stage holds at least one block");
      return;
    }
    if (s.uneven_layers && layers >= chunks) return;
    if (layers % chunks != 0)
      throw Error(ErrorKind::usage,
                  s.virtual_stages > 1 ? fmt::format("layers({}) do not divide by pp({}) * virtual_stages({}) = {}", layers, s.pp, s.virtual_stages, chunks)
                                       : fmt::format("layers({}) do not divide by pp({})", layers, s.pp),
                  "strategy.pp", "every chunk holds the same number of layers: choose pp and virtual_stages whose product divides them");
  }
};

[[maybe_unused]] const bool registered = strategies().add(
    {"pipeline_parallel", "consecutive layers on different ranks, microbatches passed between them",
     {{"pp", "pipeline stages", "1"}, {"schedule", "registered pipeline schedule", "1f1b"}, {"virtual_stages", "chunks per stage", "1"},
      {"uneven_layers", "stages may differ by a layer", "false"},
      {"microbatch", "sequences per microbatch", "1"}, {"scatter_gather", "split messages over tp ranks", "false"},
      {"overlap.pp", "sends and receives do not block compute", "true"}},
     std::make_shared<PipelineParallel>()});

}  // namespace

}  // namespace rehearse
