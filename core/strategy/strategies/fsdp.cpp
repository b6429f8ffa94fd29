// Fully sharded data parallelism (Zhao et al. 2023): parameters, gradients and optimizer state are slices over
// dp_shard. Each block is a unit that is gathered around its use; what stands outside the layers is the root unit. In
// mixed precision the slice is the optimizer's master copy, cast before it is gathered.

#include <fmt/format.h>

#include "core/config/setting_key.hpp"
#include "core/config/settings/kernels.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/strategies/offload_parameters.hpp"
#include "core/strategy/strategy.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

const SettingKey<bool> kLoneExperts = declare_key(
    "framework.lone_experts_sharded", true, "Experts of which there is one copy are fully sharded units all the same.",
    {.detail =
         "Gathered into a copy, their gradients made whole in a buffer. false: they stay where they are, as other "
         "weights without replicas do (NeMo Automodel)."});

const SettingKey<bool> kAsParameters = declare_key(
    "framework.gradients_as_parameters", false, "Slices of gradients are kept in the type of the parameters' slices.",
    {.detail =
         "They are cast after their reduction, which training.gradient_dtype is the type of, and added up in that "
         "type: PyTorch's fully_shard. false: they keep the type that they were reduced in."});

class Fsdp final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override { return request.settings.fsdp.enabled; }
  void check(const PlanRequest& request) const override {
    const StrategySettings& s = request.settings;
    if (request.workload.network.routing() != nullptr && s.dp_replicate > 1 && s.dp_shard * s.cp > 1) {
      throw Error(ErrorKind::usage,
                  fmt::format("copies of experts lie along the ranks of a stage, not within dp_shard({}): they have no "
                              "lowering with dp_replicate({})",
                              s.dp_shard, s.dp_replicate),
                  "strategy.dp_replicate",
                  fmt::format("set strategy.dp_replicate to 1 and strategy.dp_shard to {}", s.dp));
    }
    const FsdpSettings& f = s.fsdp;
    if (f.reshard_after_backward == Reshard::never && f.reshard_after_forward == Reshard::always)
      throw Error(ErrorKind::usage, "parameters that are dropped after forward cannot be kept after backward",
                  "strategy.fsdp.reshard_after_backward",
                  "set strategy.fsdp.reshard_after_forward to never, or reshard_after_backward to always");
  }
  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    const auto& s = request.settings;
    if (s.dp_shard * s.cp == 1) return;
    if (s.dp_shard > 1) plan.optimizer.emplace_back(Axis::dp_shard, shard_flat());
    if (s.cp > 1) plan.optimizer.emplace_back(Axis::cp, shard_flat());
    // Experts are units of their ranks' copies.
    const int copies = s.dp * s.cp * s.tp / (s.ep * s.etp);
    if (request.workload.network.routing() != nullptr && (copies > 1 || kLoneExperts(request.workload.kernels)))
      plan.expert_optimizer.emplace_back(Axis::edp, shard_flat());
    plan.shard_gradients = plan.shard_parameters = true;
    plan.gradients_as_parameters = kAsParameters(request.workload.kernels);
    // Where the master copy is in host memory, the device has slices of its own, unless those are there, too.
    plan.gather_master = s.offload == Offload::none || s.offload == Offload::activations || offloads_parameters(s);
  }
};

[[maybe_unused]] const bool registered_fsdp = strategies().add(
    {"fsdp",
     "parameters, gradients and optimizer state divided over dp_shard; one unit per block, gathered around its use",
     {{"fsdp.enabled", "true", "false"},
      {"dp_shard", "ranks over which one copy is sharded", "dp"},
      {"fsdp.reshard_after_forward", "drop parameters after forward, gather them again for backward", "auto"},
      {"fsdp.reshard_after_backward", "drop them after backward", "auto"},
      {"fsdp.prefetch_forward", "units gathered ahead", "1"},
      {"fsdp.prefetch_backward", "units gathered ahead", "1"},
      {"fsdp.limit_all_gathers", "gathers wait for memory given back", "true"},
      {"grad_sync", "reduce after every microbatch, or only after the last", "auto"}},
     std::make_shared<Fsdp>()});

[[maybe_unused]] const bool named_fsdp = name_strategy(
    "fsdp", {{"FullyShardedDataParallel", "PyTorch", "strategy.fsdp.enabled=true"},
             {"fully_shard", "PyTorch", "strategy.fsdp.enabled=true"},
             {"FULL_SHARD", "PyTorch", "strategy.fsdp.enabled=true, strategy.fsdp.reshard_after_forward=always"},
             {"SHARD_GRAD_OP", "PyTorch", "strategy.fsdp.enabled=true, strategy.fsdp.reshard_after_forward=never"}});

}  // namespace

}  // namespace rehearse
