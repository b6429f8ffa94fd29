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

[[noreturn]] void refuse_early(const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::usage, what, kInBackward.name(), fmt::format("{}, or {} to false", hint, kInBackward.name()));
}

}  // namespace

bool updates_in_backward(const StrategySettings& settings) { return kInBackward(settings); }

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
  const bool lowered = s.pp == 1 && s.data_parallel == DataParallelism::replicas && s.zero_stage == 0 &&
                       (s.fsdp.enabled || s.dp * s.cp == 1) && !(s.tp > 1 && s.sequence_parallel) &&
                       s.tile_h * s.tile_w == 1 && !request.workload.network.adversarial();
  if (!lowered)
    throw NoLowering(
        "optimizer_in_backward is lowered for one replica, or for fully sharded ones, without stages, "
        "sequence_parallel, tiles and a second network",
        kInBackward.name(), fmt::format("set {} to false", kInBackward.name()));
}

}  // namespace rehearse
