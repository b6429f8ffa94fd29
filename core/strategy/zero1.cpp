// ZeRO stage 1 (Rajbhandari et al. 2020, sec. 5.1), Megatron's distributed optimizer: each replica keeps a slice of the
// optimizer state. Gradients are reduce-scattered to the slice's owner, updated parameters all-gathered.

#include <fmt/format.h>

#include "core/strategy/strategy.hpp"

namespace rehearse {

namespace {

class Zero1 final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override { return request.settings.zero_stage >= 1; }
  void check(const PlanRequest& request) const override {
    if (request.settings.zero_stage > 1)
      throw Error(ErrorKind::usage, fmt::format("zero_stage {} has no lowering: stages 0 and 1 do", request.settings.zero_stage),
                  "strategy.zero_stage", "set strategy.zero_stage to 0 or 1");
  }
  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    if (request.settings.dp_replicate > 1) plan.optimizer.emplace_back(Axis::dp_replicate, shard_flat());
    if (request.settings.dp_shard > 1) plan.optimizer.emplace_back(Axis::dp_shard, shard_flat());
  }
};

[[maybe_unused]] const bool registered = strategies().add(
    {"zero1", "optimizer state divided over the data-parallel replicas (distributed optimizer)",
     {{"zero_stage", "1", "0"}, {"overlap.param_gather", "gather updated parameters under the next forward", "false"}}, std::make_shared<Zero1>()});

}  // namespace

}  // namespace rehearse
