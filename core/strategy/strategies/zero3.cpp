// ZeRO stage 3 (Rajbhandari et al. 2020, sec. 5.3) as DeepSpeed runs it: parameters are slices too. A block's are
// gathered before its forward and again before its backward, a bucket of blocks ahead, and dropped after each. Small
// ones stay whole.

#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

namespace {

class Zero3 final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override { return request.settings.zero_stage >= 3; }
  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    plan.shard_parameters = request.settings.dp * request.settings.cp > 1;
    plan.whole_below = request.settings.zero3.persistence_threshold;
    if (plan.shard_parameters && request.settings.zero3.lists)
      plan.lists_of = request.settings.dp * request.settings.cp;
  }
};

[[maybe_unused]] const bool registered_zero3 =
    strategies().add({"zero3",
                      "optimizer state, gradients and parameters divided over the data-parallel replicas; parameters "
                      "gathered block by block",
                      {{"zero_stage", "3", "0"},
                       {"zero3.prefetch_bucket", "elements gathered ahead", "5e7"},
                       {"zero3.persistence_threshold", "smaller parameters stay whole", "1e5"},
                       {"zero3.reuse_distance", "parameters used again after fewer elements are kept whole", "1e9"},
                       {"zero3.lists", "one call per parameter, over a list of tensors", "false"}},
                      std::make_shared<Zero3>()});

[[maybe_unused]] const bool named_zero3 = name_strategy(
    "zero3", {{"DeepSpeed stage 3", "DeepSpeed", "strategy.zero_stage=3"},
              {"stage3_prefetch_bucket_size", "DeepSpeed", "strategy.zero3.prefetch_bucket"},
              {"stage3_param_persistence_threshold", "DeepSpeed", "strategy.zero3.persistence_threshold"}});

}  // namespace

}  // namespace rehearse
