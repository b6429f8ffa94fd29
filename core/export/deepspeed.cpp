// DeepSpeed: ds_config.json (deepspeed/runtime/config.py, constants.py and zero/config.py, 0.19.5). Counts of buckets
// are elements there.

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/export/setting_table.hpp"
#include "core/export/start_rules.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse::exporting {

namespace {

/// Names and words are those of the table by which jobs are imported, too.
Flags deepspeed_flags(std::initializer_list<std::pair<const char*, Json>> values) {
  return said(translate::deepspeed_words(), values);
}
Rule in_deepspeed(const std::string& key, std::string why = {}) {
  return exporting::told(translate::deepspeed_words(), key, std::move(why));
}

double gradient_bytes(const ExportInput& in) {
  return in.scenario.training.gradient_dtype == GradientDtype::fp32 || in.scenario.training.precision == Precision::fp32
             ? 4
             : 2;
}

std::optional<Flags> zero_deepspeed(const Json& value, const ExportInput& in) {
  Flags out = deepspeed_flags({{"job.zero", in.scenario.strategy.fsdp.enabled ? Json(3) : value}});
  if (in.scenario.strategy.fsdp.enabled && in.scenario.strategy.dp_replicate > 1)
    out.push_back(deepspeed_flags({{"job.shard", in.scenario.strategy.dp_shard}}).front());
  return out;
}

int zero_stage(const ExportInput& in) {
  return in.scenario.strategy.fsdp.enabled ? 3 : in.scenario.strategy.zero_stage;
}

std::optional<Flags> gradients_deepspeed(const Json& value, const ExportInput& in) {
  if (value == "model" || in.scenario.training.precision == Precision::fp32) return Flags{};
  if (zero_stage(in) == 0) return std::nullopt;
  return deepspeed_flags({{"job.gradient_type", "fp32"}, {"job.wire_type", "fp32"}});
}

std::optional<Flags> offload_deepspeed(const Json& value, const ExportInput& in) {
  Flags out;
  if (value == "optimizer" || value == "all") {
    if (zero_stage(in) == 0) return std::nullopt;
    out = deepspeed_flags({{"job.offload_optimizer", "cpu"}});
    out.push_back({"zero_optimization.offload_optimizer.pin_memory", true});
  }
  if (value == "activations" || value == "all")
    out.push_back(deepspeed_flags({{"job.checkpoints_on_cpu", true}}).front());
  return out;
}

/// ZeRO wants to be told about optimizers other than Adam's kind (runtime/zero/utils.py, ZERO_SUPPORTED_OPTIMIZERS).
std::optional<Flags> optimizer_deepspeed(const Json& value, const ExportInput& in) {
  std::optional<Flags> out = translate::deepspeed_words().say("job.optimizer", value);
  if (out && value != "adam" && value != "adamw" && zero_stage(in) > 0)
    out->push_back({"zero_allow_untested_optimizer", true});
  return out;
}

/// DeepSpeedConfig takes all ranks for replicas unless a mesh or a PipelineModule says otherwise, so with AutoTP the
/// batch is left to follow from what a replica does.
bool counts_ranks_as_replicas(const ExportInput& in) {
  return in.scenario.strategy.tp > 1 && in.scenario.strategy.pp == 1;
}

const char* const kPipeline = "stages are given in code: PipelineModule(num_stages=...)";

const std::vector<Rule>& rules_deepspeed() {
  static const std::vector<Rule> table{
      {"strategy.tp", "tensor_parallel.autotp_size",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         if (v == 1) return Flags{};
         return in.scenario.strategy.pp == 1 ? translate::deepspeed_words().say("strategy.tp", v) : std::nullopt;
       },
       "with pipelines both sizes are given in code: PipelineModule(topology=PipeModelDataParallelTopology(...))"},
      choice("strategy.pp", "(PipelineModule)", {{1, {}}}, kPipeline),
      {"strategy.cp", "sequence_parallel_size, data_parallel_size",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         // deepspeed.initialize makes its mesh from both sizes.
         return v == 1 ? Flags{}
                       : deepspeed_flags({{"strategy.cp", v}, {"job.data_parallel", in.scenario.strategy.dp}});
       }},
      choice("strategy.ep", "(MoE layer)", {{1, {}}}, "given in code: deepspeed.moe.layer.MoE(ep_size=...)"),
      {"strategy.dp", "(ranks / other axes)", no_flags},
      {"strategy.dp_replicate", "(dp / mics_shard_size)", no_flags},
      {"strategy.dp_shard", "zero_optimization.mics_shard_size",
       [](const Json&, const ExportInput& in) -> std::optional<Flags> {
         return uses_zero_in_groups(in) ? std::nullopt : std::optional<Flags>(Flags{});
       },
       "MiCS divides within groups at stage 3 alone, which is strategy.fsdp.enabled=true"},
      in_deepspeed("strategy.microbatch"),
      {"strategy.schedule", "(PipelineModule)",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return in.scenario.strategy.pp == 1 || v == "1f1b" ? std::optional<Flags>(Flags{}) : std::nullopt;
       },
       "DeepSpeed's pipeline runs 1F1B"},
      {"strategy.zero_stage", "zero_optimization.stage", zero_deepspeed},
      {"strategy.fsdp.enabled", "zero_optimization.stage", no_flags},
      {"strategy.bucket", "zero_optimization.reduce_bucket_size",
       [](const Json&, const ExportInput& in) -> std::optional<Flags> {
         return deepspeed_flags({{"job.bucket_elements", static_cast<std::int64_t>(in.scenario.strategy.bucket.value() /
                                                                                   gradient_bytes(in))}});
       }},
      {"strategy.zero3.prefetch_bucket", "zero_optimization.stage3_prefetch_bucket_size",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return in.scenario.strategy.zero_stage == 3
                    ? deepspeed_flags({{"strategy.zero3.prefetch_bucket", static_cast<std::int64_t>(v.get<double>())}})
                    : Flags{};
       }},
      {"strategy.zero3.persistence_threshold", "zero_optimization.stage3_param_persistence_threshold",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return in.scenario.strategy.zero_stage == 3 ? deepspeed_flags({{"strategy.zero3.persistence_threshold",
                                                                         static_cast<std::int64_t>(v.get<double>())}})
                                                     : Flags{};
       }},
      {"strategy.zero3.max_live_parameters", "zero_optimization.stage3_max_live_parameters",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return in.scenario.strategy.zero_stage == 3 ? deepspeed_flags({{"strategy.zero3.max_live_parameters",
                                                                         static_cast<std::int64_t>(v.get<double>())}})
                                                     : Flags{};
       }},
      {"strategy.offload_parameters", "zero_optimization.offload_param",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         if (v == false) return Flags{};
         if (zero_stage(in) < 3) return std::nullopt;
         return Flags{deepspeed_flags({{"job.offload_parameters", "cpu"}}).front(),
                      {"zero_optimization.offload_param.pin_memory", true}};
       },
       "DeepSpeed offloads parameters with ZeRO 3 only"},
      in_deepspeed("strategy.overlap.grad_reduce"),
      {"strategy.offload", "zero_optimization.offload_optimizer", offload_deepspeed,
       "DeepSpeed offloads optimizers with ZeRO only"},
      choice("strategy.recompute", "(model code)", {{"none", {}}},
             "layers are wrapped in code: deepspeed.checkpointing.checkpoint, or the model's "
             "gradient_checkpointing_enable()"),
      {"training.global_batch", "train_batch_size",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return counts_ranks_as_replicas(in) ? Flags{} : deepspeed_flags({{"job.global_batch", v}});
       }},
      {"training.sequence_length", "(data)",
       [](const Json&, const ExportInput&) -> std::optional<Flags> { return std::nullopt; },
       "the data set's samples have that length"},
      choice("training.precision", "bf16.enabled, fp16.enabled",
             {{"bf16_mixed", deepspeed_flags({{"job.bf16", true}, {"job.fp16", false}})},
              {"fp16_mixed", deepspeed_flags({{"job.bf16", false}, {"job.fp16", true}})},
              {"fp32", deepspeed_flags({{"job.bf16", false}, {"job.fp16", false}})}}),
      {"training.gradient_dtype", "data_types.grad_accum_dtype, communication_data_type", gradients_deepspeed,
       "without ZeRO, DeepSpeed adds 16-bit gradients up in their own type (engine.py, _do_optimizer_sanity_check)"},
      {"training.optimizer", "optimizer.type", optimizer_deepspeed},
      in_deepspeed("training.learning_rate"),
      in_deepspeed("training.weight_decay"),
      choice("training.clip_gradients", "gradient_clipping",
             {{true, deepspeed_flags({{"job.clip", 1.0}})}, {false, deepspeed_flags({{"job.clip", 0.0}})}}),
      choice("training.tokens", "(model code)", {{0, {}}}, "the training loop counts steps"),
      autograd_sums(),
      choice("kernels.attention", "(model code)", {{"flash", {}}}, "the model chooses its attention"),
  };
  return table;
}

Exported write_deepspeed(const ExportInput& in) {
  refuse_what_cannot_start("DeepSpeed@0.19.6", deepspeed_start(), in);
  Mapped m = map_settings(in, rules_deepspeed(), "DeepSpeed");
  // Adam of DeepSpeed decays weights apart from the gradient unless told not to.
  const StrategySettings& s = in.scenario.strategy;
  if (in.scenario.training.optimizer == Optimizer::adam)
    m.flags.push_back(deepspeed_flags({{"job.adam_w_mode", false}}).front()),
        m.settings.push_back({"training.optimizer", "adam", "optimizer.params.adam_w_mode", "false"});
  const std::int64_t accumulation = in.scenario.training.global_batch / (s.microbatch * std::max(1, s.dp));
  m.flags.push_back(deepspeed_flags({{"job.accumulation", accumulation}}).front());
  m.settings.push_back({"training.global_batch", std::to_string(in.scenario.training.global_batch),
                        "gradient_accumulation_steps", std::to_string(accumulation)});
  m.left_out.push_back({"model", in.workload.network.name, "the training script makes the model"});
  if (pools(in).size() > 1)
    m.left_out.push_back({"cluster.parts", fmt::format("{} kinds of machines", pools(in).size()),
                          "DeepSpeed gives every rank of an axis the same share"});
  Exported out;
  out.files.push_back({"ds_config.json", nested(m.flags).dump(2) + "\n", false, false});
  out.settings = std::move(m.settings);
  out.left_out = std::move(m.left_out);
  out.notes.push_back(
      fmt::format("run: deepspeed --num_nodes {} --num_gpus {} train.py --deepspeed --deepspeed_config ds_config.json",
                  node_count(pools(in)), pools(in).front().gpus));
  return out;
}

[[maybe_unused]] const bool entered_deepspeed =
    enter("deepspeed", "a ds_config.json of DeepSpeed", rules_deepspeed(), write_deepspeed);
[[maybe_unused]] const bool named_deepspeed = writes_for("deepspeed", "megatron-deepspeed");

}  // namespace

}  // namespace rehearse::exporting
