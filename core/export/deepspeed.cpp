// DeepSpeed: ds_config.json (deepspeed/runtime/config.py, constants.py and zero/config.py, 0.19.5). Counts of buckets
// are elements there.

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/export/setting_table.hpp"
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

const char* const kPipeline = "stages are given in code: PipelineModule(num_stages=...)";

const std::vector<Rule>& rules_deepspeed() {
  static const std::vector<Rule> table{
      choice("strategy.tp", "tensor_parallel.autotp_size", {{1, {}}}),
      choice("strategy.pp", "(PipelineModule)", {{1, {}}}, kPipeline),
      {"strategy.cp", "sequence_parallel_size, data_parallel_size",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         if (v == 1) return Flags{};
         // deepspeed.initialize makes its mesh from both sizes.
         return in.scenario.strategy.context == ContextExchange::ulysses
                    ? std::optional<Flags>(
                          deepspeed_flags({{"strategy.cp", v}, {"job.data_parallel", in.scenario.strategy.dp}}))
                    : std::nullopt;
       },
       "DeepSpeed's sequence parallelism is Ulysses"},
      choice("strategy.ep", "(MoE layer)", {{1, {}}}, "given in code: deepspeed.moe.layer.MoE(ep_size=...)"),
      {"strategy.dp", "(ranks / other axes)", no_flags},
      {"strategy.dp_replicate", "(dp / mics_shard_size)", no_flags},
      {"strategy.dp_shard", "zero_optimization.mics_shard_size", no_flags},
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
      choice("strategy.offload_parameters", "zero_optimization.offload_param",
             {{false, {}},
              {true,
               {deepspeed_flags({{"job.offload_parameters", "cpu"}}).front(),
                {"zero_optimization.offload_param.pin_memory", true}}}}),
      in_deepspeed("strategy.overlap.grad_reduce"),
      choice("strategy.offload", "zero_optimization.offload_optimizer",
             {{"none", {}},
              {"optimizer",
               {deepspeed_flags({{"job.offload_optimizer", "cpu"}}).front(),
                {"zero_optimization.offload_optimizer.pin_memory", true}}},
              {"activations", deepspeed_flags({{"job.checkpoints_on_cpu", true}})},
              {"all",
               {deepspeed_flags({{"job.offload_optimizer", "cpu"}}).front(),
                {"zero_optimization.offload_optimizer.pin_memory", true},
                deepspeed_flags({{"job.checkpoints_on_cpu", true}}).front()}}}),
      choice("strategy.recompute", "(model code)", {{"none", {}}},
             "layers are wrapped in code: deepspeed.checkpointing.checkpoint, or the model's "
             "gradient_checkpointing_enable()"),
      {"training.global_batch", "train_batch_size",
       [](const Json& v, const ExportInput&) -> std::optional<Flags> {
         return deepspeed_flags({{"job.global_batch", v}});
       }},
      {"training.sequence_length", "(data)",
       [](const Json&, const ExportInput&) -> std::optional<Flags> { return std::nullopt; },
       "the data set's samples have that length"},
      choice("training.precision", "bf16.enabled, fp16.enabled",
             {{"bf16_mixed", deepspeed_flags({{"job.bf16", true}, {"job.fp16", false}})},
              {"fp16_mixed", deepspeed_flags({{"job.bf16", false}, {"job.fp16", true}})},
              {"fp32", deepspeed_flags({{"job.bf16", false}, {"job.fp16", false}})}}),
      choice("training.gradient_dtype", "data_types.grad_accum_dtype, communication_data_type",
             {{"fp32", deepspeed_flags({{"job.gradient_type", "fp32"}, {"job.wire_type", "fp32"}})}, {"model", {}}}),
      choice("training.optimizer", "optimizer.type",
             {{"adam", deepspeed_flags({{"job.optimizer", "adam"}})},
              {"adamw", deepspeed_flags({{"job.optimizer", "adamw"}})},
              {"lamb", deepspeed_flags({{"job.optimizer", "lamb"}})},
              {"sgd", deepspeed_flags({{"job.optimizer", "sgd"}})}}),
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
  Mapped m = map_settings(in, rules_deepspeed(), "DeepSpeed");
  // Adam of DeepSpeed decays weights apart from the gradient unless told not to.
  const StrategySettings& s = in.scenario.strategy;
  if (in.scenario.training.optimizer == Optimizer::adam)
    m.flags.push_back(deepspeed_flags({{"job.adam_w_mode", false}}).front()),
        m.settings.push_back({"training.optimizer", "adam", "optimizer.params.adam_w_mode", "false"});
  if (s.tp > 1) {
    m.left_out.erase(std::remove_if(m.left_out.begin(), m.left_out.end(),
                                    [](const LeftOutKey& l) { return l.key == "strategy.tp"; }),
                     m.left_out.end());
    m.flags.push_back(deepspeed_flags({{"strategy.tp", s.tp}}).front());
    m.settings.push_back({"strategy.tp", std::to_string(s.tp), "tensor_parallel.autotp_size", std::to_string(s.tp)});
  }
  const std::int64_t accumulation = in.scenario.training.global_batch / (s.microbatch * std::max(1, s.dp));
  m.flags.push_back(deepspeed_flags({{"job.accumulation", accumulation}}).front());
  m.settings.push_back({"training.global_batch", std::to_string(in.scenario.training.global_batch),
                        "gradient_accumulation_steps", std::to_string(accumulation)});
  m.left_out.push_back({"model", in.workload.network.name, "the training script makes the model"});
  if (pools(in.cluster).size() > 1)
    m.left_out.push_back({"cluster.parts", fmt::format("{} kinds of machines", pools(in.cluster).size()),
                          "DeepSpeed gives every rank of an axis the same share"});
  Exported out;
  out.files.push_back({"ds_config.json", nested(m.flags).dump(2) + "\n", false, false});
  out.settings = std::move(m.settings);
  out.left_out = std::move(m.left_out);
  out.notes.push_back(
      fmt::format("run: deepspeed --num_nodes {} --num_gpus {} train.py --deepspeed --deepspeed_config ds_config.json",
                  in.cluster.node_count(), pools(in.cluster).front().gpus));
  return out;
}

[[maybe_unused]] const bool entered_deepspeed =
    enter("deepspeed", "a ds_config.json of DeepSpeed", rules_deepspeed(), write_deepspeed);
[[maybe_unused]] const bool named_deepspeed = writes_for("deepspeed", "megatron-deepspeed");

}  // namespace

}  // namespace rehearse::exporting
