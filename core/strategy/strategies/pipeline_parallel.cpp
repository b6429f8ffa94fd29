// Pipeline parallelism: consecutive layers on different ranks, microbatches passed between them by the registered
// schedule.

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/shares.hpp"
#include "core/strategy/strategy.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

class PipelineParallel final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override {
    const auto& s = request.settings;
    const Schedule& schedule = *schedules().at(s.schedule).value;
    return s.pp > 1 || s.virtual_stages > 1 || !s.layers_per_stage.empty() || schedule.splits_backward() ||
           schedule.pairs() || s.deferred_head_gradients > 0;
  }
  void check(const PlanRequest& request) const override {
    const auto& s = request.settings;
    const Schedule& schedule = *schedules().at(s.schedule).value;
    schedule.check({s.pp, s.virtual_stages, request.microbatches});
    check_order(s, schedule);
    if (s.deferred_head_gradients > 0) check_deferred(s, schedule);
    if (!s.layers_per_stage.empty()) return check_layers(request.workload.network, s);
    const int layers = request.workload.network.layers();
    const int chunks = s.pp * s.virtual_stages;
    if (request.workload.network.uneven()) {
      if (layers < chunks)
        throw Error(ErrorKind::usage,
                    fmt::format("{} blocks are fewer than pp({}) * virtual_stages({}) = {}", layers, s.pp,
                                s.virtual_stages, chunks),
                    "strategy.pp", "a stage holds at least one block");
      return;
    }
    if (s.uneven_layers && layers >= chunks) return;
    if (layers % chunks != 0) {
      throw Error(
          ErrorKind::usage,
          s.virtual_stages > 1 ? fmt::format("layers({}) do not divide by pp({}) * virtual_stages({}) = {}", layers,
                                             s.pp, s.virtual_stages, chunks)
                               : fmt::format("layers({}) do not divide by pp({})", layers, s.pp),
          "strategy.pp",
          "every chunk holds the same number of layers: choose pp and virtual_stages whose product divides them");
    }
  }

 private:
  static void check_deferred(const StrategySettings& s, const Schedule& schedule) {
    const auto refuse = [](const std::string& why) {
      throw Error(ErrorKind::usage, "deferred_head_gradients " + why, "framework.deferred_head_gradients",
                  "set framework.deferred_head_gradients to 0");
    };
    if (s.pp == 1) refuse("has no drain to hide in without pipeline stages");
    if (schedule.splits_backward() || schedule.pairs() || schedule.copies() > 1)
      refuse(fmt::format(
          "is for whole backward passes, one at a time: schedule {} defers weight gradients by itself or pairs passes",
          s.schedule));
    if (s.zero_stage >= 2 || s.fsdp.enabled) refuse("would keep gradients whole that ZeRO 2, 3 and FSDP shard");
    if (s.data_parallel != DataParallelism::replicas && s.dp > 1)
      refuse(fmt::format("is not for a {}", name_of(s.data_parallel)));
    if (s.grad_sync == GradientSync::every) refuse("leaves nothing to reduce after a microbatch");
    if (s.offload == Offload::optimizer) refuse("is not for gradients that go to the host during backward");
  }
  /// What an order of passes rules out.
  static void check_order(const StrategySettings& s, const Schedule& schedule) {
    const auto refuse = [&](const std::string& why, const char* where, const char* hint) {
      throw Error(ErrorKind::usage, fmt::format("schedule {} {}", s.schedule, why), where, hint);
    };
    if (schedule.splits_backward() && (s.zero_stage >= 2 || s.fsdp.enabled))
      refuse(
          "computes a layer's weight gradients long after its input's: sharded gradients and parameters would stay "
          "whole in between",
          "strategy.schedule",
          "set strategy.zero_stage to 0 or 1 and strategy.fsdp.enabled to false, or strategy.schedule to 1f1b");
    if (schedule.pairs() && (s.zero_stage >= 3 || s.fsdp.enabled))
      refuse("runs two passes at once: parameters gathered for one would be dropped under the other",
             "strategy.schedule",
             "set strategy.zero_stage below 3 and strategy.fsdp.enabled to false, or strategy.schedule to 1f1b");
    if (schedule.splits_backward() && s.data_parallel != DataParallelism::replicas && s.dp > 1)
      refuse(fmt::format("splits backward, which a {} does not", name_of(s.data_parallel)), "strategy.schedule",
             "set strategy.schedule to 1f1b");
    const bool both_ways = schedule.copies() > 1 ||
                           (s.virtual_stages > 1 && schedule.stage_of(s.pp, {s.pp, s.virtual_stages, 1}) == s.pp - 1);
    if (both_ways && s.pp > 1 && !s.overlap.pp)
      refuse("sends both ways between two stages: with sends that block, each would wait for the other to receive",
             "strategy.overlap.pp", "set strategy.overlap.pp to true");
  }
};

[[maybe_unused]] const bool registered_pipeline_parallel = strategies().add(
    {"pipeline_parallel",
     "consecutive layers on different ranks, microbatches passed between them",
     {{"pp", "pipeline stages", "1"},
      {"schedule", "registered pipeline schedule", "1f1b"},
      {"virtual_stages", "chunks per stage", "1"},
      {"uneven_layers", "stages may differ by a layer", "false"},
      {"layers_per_stage", "layers of each stage", "equal"},
      {"balance", "layers: chosen by the devices' speed", "none"},
      {"microbatch", "sequences per microbatch", "1"},
      {"scatter_gather", "split messages over tp ranks", "false"},
      {"deferred_head_gradients", "microbatches whose weight gradient of the output layer fills the drain", "0"},
      {"overlap.pp", "sends and receives do not block compute", "true"}},
     std::make_shared<PipelineParallel>()});

[[maybe_unused]] const bool named_pipeline_parallel = name_strategy(
    "pipeline_parallel",
    {{"--pipeline-model-parallel-size", "Megatron-LM", "strategy.pp=N"},
     {"--num-layers-per-virtual-pipeline-stage", "Megatron-LM",
      "strategy.schedule=interleaved_1f1b, strategy.virtual_stages=layers / (pp * N)"},
     {"ScheduleGPipe", "PyTorch", "strategy.pp=N, strategy.schedule=gpipe"},
     {"Schedule1F1B", "PyTorch", "strategy.pp=N, strategy.schedule=1f1b"},
     {"ScheduleInterleaved1F1B", "PyTorch",
      "strategy.pp=N, strategy.schedule=interleaved_1f1b, strategy.virtual_stages=V"},
     {"ScheduleZBVZeroBubble", "PyTorch", "strategy.pp=N, strategy.schedule=zb_v, strategy.virtual_stages=2"},
     {"--overlap-p2p-communication", "Megatron-LM", "strategy.overlap.pp=true"},
     {"DualPipe", "DeepSeek", "strategy.pp=N, strategy.schedule=dualpipe"}});

}  // namespace

}  // namespace rehearse
