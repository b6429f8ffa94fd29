// Two networks trained against each other (Goodfellow et al. 2014): a discriminator learns to tell real samples from
// made ones, then a generator learns, through it, to make better ones. Each has an update of its own in every step.

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/strategy.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

class Adversarial final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override { return request.workload.network.adversarial(); }

  void check(const PlanRequest& request) const override {
    const StrategySettings& s = request.settings;
    const std::string& name = request.workload.network.name;
    const auto refuse = [&](bool when, const std::string& why, const char* where, const char* hint) {
      if (when) throw Error(ErrorKind::usage, fmt::format("{} trains two networks: {}", name, why), where, hint);
    };
    refuse(
        s.pp > 1 || s.virtual_stages > 1 || !s.layers_per_stage.empty(),
        "the discriminator passes three times a step, with an update between, for which no pipeline schedule has slots",
        "strategy.pp", "set strategy.pp and strategy.virtual_stages to 1, and use dp");
    const Schedule& schedule = *schedules().at(s.schedule).value;
    refuse(schedule.splits_backward() || schedule.pairs(),
           fmt::format("schedule {} orders the passes of one", s.schedule), "strategy.schedule",
           "set strategy.schedule to 1f1b");
    refuse(s.tile_h * s.tile_w > 1,
           "halos of images that are read and of those that are made would be filled at different places",
           "strategy.tile_h", "set strategy.tile_h and strategy.tile_w to 1, and use dp");
    refuse(s.zero_stage >= 2,
           "gradients and parameters of the discriminator would be gathered and scattered by passes that add to none",
           "strategy.zero_stage", "set strategy.zero_stage to 0 or 1");
    refuse(s.fsdp.enabled,
           "parameters of the discriminator would be gathered for passes of three kinds, for which fsdp has no order",
           "strategy.fsdp.enabled",
           "set strategy.fsdp.enabled to false; strategy.zero_stage 1 divides the optimizer state");
    refuse(s.offload != Offload::none, "copies to the host follow the passes of one", "strategy.offload",
           "set strategy.offload to none");
    refuse(s.recompute != Recompute::none,
           "what the generator makes is kept from the discriminator's update to its own, and made once",
           "strategy.recompute", "set strategy.recompute to none");
    refuse(s.data_parallel != DataParallelism::replicas && s.dp > 1,
           fmt::format("a {} updates all parameters at the end of a step", name_of(s.data_parallel)),
           "strategy.data_parallel", "set strategy.data_parallel to replicas");
    refuse(s.grad_sync == GradientSync::every && request.microbatches > 1,
           fmt::format("gradients of {} microbatches are added up before each update and reduced once",
                       request.microbatches),
           "strategy.grad_sync", "set strategy.grad_sync to last");
  }
};

[[maybe_unused]] const bool registered_adversarial =
    strategies().add({"adversarial",
                      "two networks, each with its update: the discriminator on real and made samples, then the "
                      "generator through it (GAN)",
                      {{"model", "a layer list with a discriminator, as dcgan", "required"},
                       {"training.discriminator.optimizer", "the discriminator's update rule", "same"},
                       {"training.discriminator.learning_rate", "its step size", "training.learning_rate"}},
                      std::make_shared<Adversarial>()});

}  // namespace

}  // namespace rehearse
