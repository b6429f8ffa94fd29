// ZeRO stage 2 (Rajbhandari et al. 2020, sec. 5.2): each replica keeps the slice of the gradients that its optimizer
// state belongs to. Whole gradients live from a block's backward to the reduction of their bucket, after every
// microbatch.

#include <fmt/format.h>

#include "core/config/settings/choices.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

namespace {

class Zero2 final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override { return request.settings.zero_stage >= 2; }
  void check(const PlanRequest& request) const override {
    if (request.settings.grad_sync == GradientSync::last && request.microbatches > 1)
      throw Error(
          ErrorKind::usage,
          fmt::format("zero_stage {} keeps slices of gradients: whole ones of {} microbatches cannot be accumulated",
                      request.settings.zero_stage, request.microbatches),
          "strategy.grad_sync", "set strategy.grad_sync to every, or strategy.zero_stage to 1");
  }
  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    plan.shard_gradients = request.settings.dp * request.settings.cp > 1;
  }
};

[[maybe_unused]] const bool registered_zero2 =
    strategies().add({"zero2",
                      "optimizer state and gradients divided over the data-parallel replicas",
                      {{"zero_stage", "2", "0"}, {"bucket", "gradient bucket size", "25MB"}},
                      std::make_shared<Zero2>()});

[[maybe_unused]] const bool named_zero2 =
    name_strategy("zero2", {{"DeepSpeed stage 2", "DeepSpeed", "strategy.zero_stage=2"}});

}  // namespace

}  // namespace rehearse
