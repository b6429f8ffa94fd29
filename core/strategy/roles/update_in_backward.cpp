#include "core/strategy/roles/update_in_backward.hpp"

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/strategy/no_lowering.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

const SettingKey<bool> kInBackward =
    declare_key("strategy.optimizer_in_backward", false, "Parameters are updated during backward.",
                {.detail = "Each gradient is freed at once. For one microbatch a step and without clipping, which "
                           "needs all gradients. Without data parallelism, "
                           "or with fsdp. torchtune's optimizer_in_bwd, PyTorch's apply_optimizer_in_backward.",
                 .example = "true"});

const SettingKey<bool> kFresh = declare_key(
    "strategy.fresh_gradients", false, "Gradients have storage from backward to their update alone.",
    {.detail = "PyTorch's zero_grad(set_to_none=True), its default since 2.0: what activations need most of "
               "is then free of gradients. Where a step is one microbatch, without data parallelism or "
               "with fsdp, and without stages; elsewhere microbatches or buckets hold them.",
     .example = "true"});

/// Without what looks at gradients between backward and update in another way than one replica, or fully sharded ones.
bool plain(const PlanRequest& request) {
  const StrategySettings& s = request.settings;
  return s.pp == 1 && s.data_parallel == DataParallelism::replicas && s.zero_stage == 0 &&
         (s.fsdp.enabled || s.dp * s.cp == 1) && !(s.tp > 1 && s.sequence_parallel) && s.tile_h * s.tile_w == 1 &&
         !request.workload.network.adversarial();
}

[[noreturn]] void refuse_early(const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::usage, what, kInBackward.name(), fmt::format("{}, or {} to false", hint, kInBackward.name()));
}

}  // namespace

bool updates_in_backward(const StrategySettings& settings) { return kInBackward(settings); }

bool drops_gradients(const StrategySettings& settings) { return kFresh(settings); }

bool fresh_gradients(const PlanRequest& request) {
  const Offload offload = request.settings.offload;
  return drops_gradients(request.settings) && request.microbatches == 1 && plain(request) &&
         (offload == Offload::none || offload == Offload::activations) && !updates_in_backward(request.settings);
}

void check_update_in_backward(const PlanRequest& request) {
  const StrategySettings& s = request.settings;
  const TrainingSettings& t = request.workload.training;
  if (!updates_in_backward(s)) return;
  if (request.microbatches > 1)
    refuse_early(
        fmt::format("gradients of {} microbatches are not complete in the first's backward", request.microbatches),
        "set strategy.microbatch so that a step is one microbatch");
  if (t.clip_gradients)
    refuse_early("clip_gradients needs the norm of all gradients before the first update",
                 "set training.clip_gradients to false");
  if (t.precision == Precision::fp16_mixed)
    refuse_early("loss scaling looks at all gradients before the first update", "set training.precision to bf16_mixed");
  if (s.offload == Offload::optimizer || s.offload == Offload::all)
    refuse_early("an optimizer in host memory updates after backward", "set strategy.offload to none or activations");
  if (!plain(request))
    throw NoLowering(
        "optimizer_in_backward is lowered for one replica, or for fully sharded ones, without stages, "
        "sequence_parallel, tiles and a second network",
        kInBackward.name(), fmt::format("set {} to false", kInBackward.name()));
}

}  // namespace rehearse
