// ZeRO stage 1 (Rajbhandari et al. 2020, sec. 5.1), Megatron's distributed optimizer: each replica keeps a slice of the
// optimizer state. Gradients are reduce-scattered to the slice's owner, updated parameters all-gathered. With dp_shard
// above 1 that many replicas divide the state, and each group of them has all of it: Megatron's instances of the
// distributed optimizer, Apex's DistributedFusedLAMB.

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

namespace {

class Zero1 final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override { return request.settings.zero_stage >= 1; }
  void check(const PlanRequest& request) const override {
    const StrategySettings& s = request.settings;
    if (s.fsdp.enabled)
      throw Error(ErrorKind::usage,
                  fmt::format("fsdp.enabled and zero_stage({}) both divide the optimizer state", s.zero_stage),
                  "strategy.zero_stage", "choose one: fsdp.enabled shards what zero_stage 3 does");
    if (s.zero_stage == 1 && s.grad_sync == GradientSync::every && request.microbatches > 1)
      throw Error(ErrorKind::usage,
                  fmt::format("zero_stage 1 accumulates whole gradients of {} microbatches and reduces them once",
                              request.microbatches),
                  "strategy.grad_sync", "set strategy.grad_sync to last, or strategy.zero_stage to 2");
  }
  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    const bool whole_groups = request.settings.zero_stage == 1 && request.settings.dp_shard > 1;
    if (request.settings.dp_replicate > 1 && !whole_groups)
      plan.optimizer.emplace_back(Axis::dp_replicate, shard_flat());
    if (request.settings.dp_shard > 1) plan.optimizer.emplace_back(Axis::dp_shard, shard_flat());
    // They hold the same parameters, too.
    if (request.settings.cp > 1) plan.optimizer.emplace_back(Axis::cp, shard_flat());
  }
  std::vector<StrategyExample> examples() const override {
    return {{"groups that divide the optimizer state", &StrategySettings::dp_shard, 2,
             [](StrategySettings& s) { s.zero_stage = 1; }}};
  }
};

[[maybe_unused]] const bool registered_zero1 =
    strategies().add({"zero1",
                      "optimizer state divided over the data-parallel replicas (distributed optimizer)",
                      {{"zero_stage", "1", "0"},
                       {"dp_shard", "replicas that divide it; each group of so many has all of it", "dp"},
                       {"overlap.param_gather", "gather updated parameters under the next forward", "false"}},
                      std::make_shared<Zero1>()});

[[maybe_unused]] const bool named_zero1 =
    name_strategy("zero1", {{"ZeroRedundancyOptimizer", "PyTorch", "strategy.zero_stage=1"},
                            {"DeepSpeed stage 1", "DeepSpeed", "strategy.zero_stage=1"},
                            {"--use-distributed-optimizer", "Megatron-LM", "strategy.zero_stage=1"},
                            {"--num-distributed-optimizer-instances", "Megatron-LM",
                             "strategy.zero_stage=1, strategy.dp_shard=dp / instances"},
                            {"--overlap-param-gather", "Megatron-LM", "strategy.overlap.param_gather=true"}});

}  // namespace

}  // namespace rehearse
