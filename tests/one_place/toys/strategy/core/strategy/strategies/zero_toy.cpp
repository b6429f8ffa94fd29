// ZeRO stage 3 that keeps larger parameters whole than zero3.persistence_threshold says, of so many elements at most.

#include "core/config/setting_key.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

namespace {

const SettingKey<std::int64_t> kZeroToy =
    declare_key("strategy.zero_toy", std::int64_t{0}, "Parameters of fewer elements stay whole on every rank.",
                {.most = 1e12,
                 .detail = "For zero_stage 3. 0 leaves it to zero3.persistence_threshold.",
                 .example = "1000000",
                 .searched = {std::int64_t{0}, std::int64_t{1000000}},
                 .flags = {{"deepspeed", "zero_optimization.toy_threshold"}}});

class ZeroToy final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override { return kZeroToy(request.settings) > 0; }
  void check(const PlanRequest& request) const override {
    if (request.settings.zero_stage < 3)
      throw Error(ErrorKind::usage, "zero_toy keeps whole what only zero_stage 3 divides", "strategy.zero_toy",
                  "set strategy.zero_stage to 3, or strategy.zero_toy to 0");
  }
  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    plan.whole_below = std::max(plan.whole_below, static_cast<double>(kZeroToy(request.settings)));
  }
  std::vector<StrategyExample> examples() const override {
    return {{"whole toys", &StrategySettings::dp_shard, 2, [](StrategySettings& s) {
               s.zero_stage = 3;
               kZeroToy.set(s, 1000);
             }}};
  }
};

[[maybe_unused]] const bool registered_zero_toy =
    strategies().add({"zero_toy",
                      "as zero3, but parameters of fewer elements than zero_toy stay whole",
                      {{"zero_toy", "elements", "0"}},
                      std::make_shared<ZeroToy>()});

[[maybe_unused]] const bool named_zero_toy =
    name_strategy("zero_toy", {{"stage3_toy_threshold", "DeepSpeed", "strategy.zero_stage=3, strategy.zero_toy=N"}});

}  // namespace

}  // namespace rehearse
