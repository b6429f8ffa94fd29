// Slices of parameters in host memory: DeepSpeed's ZeRO-3 with offload_param (Rajbhandari et al. 2021, ZeRO-Infinity),
// FSDP's CPUOffload. A unit's slices are copied to the device before each gather; FSDP copies the fp32 master's and
// casts them there. The optimizer is on the host too, so that what it writes stays there.

#include "core/strategy/strategies/offload_parameters.hpp"

#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/execution_gaps.hpp"
#include "core/strategy/no_lowering.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

namespace {

const SettingKey<bool> kOffloadParameters = declare_key(
    "strategy.offload_parameters", false, "Slices of parameters lie in host memory.",
    {.detail = "Of fully sharded data parallelism, or of zero_stage 3, with strategy.offload optimizer or all. They "
               "are copied to the device before each gather. DeepSpeed's offload_param, FSDP's CPUOffload.",
     .example = "true"});

class OffloadParameters final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override { return offloads_parameters(request.settings); }
  void check(const PlanRequest& request) const override {
    const StrategySettings& s = request.settings;
    if (!s.fsdp.enabled && s.zero_stage < 3)
      throw Error(ErrorKind::usage, "whole parameters are used where they lie: slices alone can wait in host memory",
                  kOffloadParameters.name(), "set strategy.fsdp.enabled to true, or strategy.zero_stage to 3");
    if (s.offload != Offload::optimizer && s.offload != Offload::all)
      throw NoLowering("offload_parameters has no lowering for an optimizer on the device", kOffloadParameters.name(),
                       "set strategy.offload to optimizer, or to all");
    if ((s.fsdp.enabled ? s.dp_shard : s.dp) * s.cp == 1)
      throw NoLowering("offload_parameters has no lowering where one GPU holds all slices of a parameter",
                       kOffloadParameters.name(),
                       "set strategy.dp to 2 or more, or strategy.offload_parameters to false");
  }
  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    (void)request;
    plan.parameters_on_host = true;
  }
};

[[maybe_unused]] const bool simulated_only_offload_parameters =
    execution_gaps().add({"offload_parameters", "", {}, "no operators for host memory"});
[[maybe_unused]] const bool registered_offload_parameters =
    strategies().add({"offload_parameters",
                      "slices of parameters in host memory, copied to the device before each gather",
                      {{"offload_parameters", "true", "false"}},
                      std::make_shared<OffloadParameters>()});

[[maybe_unused]] const bool named_offload_parameters = name_strategy(
    "offload_parameters",
    {{"offload_param device=cpu", "DeepSpeed", "strategy.offload_parameters=true, strategy.offload=optimizer"},
     {"CPUOffload", "PyTorch", "strategy.offload_parameters=true, strategy.offload=optimizer"},
     {"CPUOffloadPolicy", "PyTorch", "strategy.offload_parameters=true, strategy.offload=optimizer"}});

}  // namespace

bool offloads_parameters(const StrategySettings& settings) { return kOffloadParameters(settings); }

}  // namespace rehearse
