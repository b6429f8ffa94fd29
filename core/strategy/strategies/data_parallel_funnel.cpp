// torch.nn.DataParallel: one process drives the GPUs of a machine. Every step GPU 0 gets the whole batch and scatters
// it, broadcasts the parameters, collects the outputs, sums the gradients and updates. What it costs is what
// DistributedDataParallel avoids.

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/execution_gaps.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

namespace {

class Funnel final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override {
    return request.settings.data_parallel == DataParallelism::funnel && request.settings.dp > 1;
  }
  void check(const PlanRequest& request) const override {
    if (request.settings.ep * request.settings.etp > 1)
      throw Error(ErrorKind::usage,
                  fmt::format("ep({}) divides what every replica is to hold whole", request.settings.ep), "strategy.ep",
                  "set strategy.ep and strategy.etp to 1");
    const StrategySettings& s = request.settings;
    const auto refuse = [](const std::string& what, const char* where, const char* hint) {
      throw Error(ErrorKind::usage, what, where, hint);
    };
    if (s.tp * s.pp * s.cp * s.tile_h * s.tile_w > 1)
      refuse(fmt::format("the funnel copies whole networks: tp({}) * pp({}) * cp({}) * tile_h({}) * tile_w({}) != 1",
                         s.tp, s.pp, s.cp, s.tile_h, s.tile_w),
             "strategy.data_parallel", "set tp, pp, cp, tile_h and tile_w to 1");
    if (s.zero_stage > 0 || s.fsdp.enabled)
      refuse("the funnel keeps parameters and optimizer state in one place: there is nothing to shard",
             "strategy.data_parallel", "set strategy.zero_stage to 0 and strategy.fsdp.enabled to false");
    if (s.dp_shard > 1)
      refuse(fmt::format("the funnel knows no dp_shard({})", s.dp_shard), "strategy.dp_shard",
             "set strategy.dp_shard to 1");
  }
  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    (void)request;
    plan.central_update = true;
  }
};

[[maybe_unused]] const bool simulated_only_data_parallel_funnel = execution_gaps().add(
    {"data_parallel_funnel",
     "",
     {},
     "outputs gathered on GPU 0 are messages of their size, without the outputs: nothing could be compared"});
[[maybe_unused]] const bool registered_data_parallel_funnel =
    strategies().add({"data_parallel_funnel",
                      "one process: GPU 0 loads, scatters, broadcasts parameters, gathers outputs, reduces gradients "
                      "and updates (DataParallel)",
                      {{"data_parallel", "funnel", "replicas"},
                       {"bucket", "parameters broadcast and gradients reduced in one call", "25MB"}},
                      std::make_shared<Funnel>()});

[[maybe_unused]] const bool named_data_parallel_funnel = name_strategy(
    "data_parallel_funnel", {{"DataParallel", "PyTorch", "strategy.data_parallel=funnel, strategy.bucket=10MiB"}});

}  // namespace

}  // namespace rehearse
