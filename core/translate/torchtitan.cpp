// torchtitan: places in a train.toml. Facts from pytorch/torchtitan @73a0e6979dd1 (v0.2.2)
// torchtitan/config/job_config.py, the last release that reads TOML; earlier places from @f7084fc78567 (v0.1.0)
// torchtitan/config_manager.py and
// @9dec370ad26b (December 2024) torchtitan/config_manager.py.

#include "core/translate/language.hpp"

namespace rehearse::translate {

namespace {

constexpr const char* kOldest = "2024-12";
constexpr const char* kFirst = "0.1.0";

void add_axes_of_torchtitan(std::vector<Term>& t) {
  const auto both = [&](const std::string& name, const std::string& ours, const char* former_group) {
    t.push_back(number("parallelism." + name, ours));
    t.push_back(number(former_group + ("." + name), ours).last_in(kOldest));
  };
  both("tensor_parallel_degree", "strategy.tp", "training");
  both("pipeline_parallel_degree", "strategy.pp", "experimental");
  both("context_parallel_degree", "strategy.cp", "experimental");
  both("data_parallel_replicate_degree", "strategy.dp_replicate", "training");
  both("data_parallel_shard_degree", "job.shard", "training");
  t.push_back(number("parallelism.expert_parallel_degree", "strategy.ep"));
  t.push_back(number("parallelism.expert_tensor_parallel_degree", "strategy.etp"));
  t.push_back(number("custom_args.expert_parallel_degree", "strategy.ep").only_read());
  const std::vector<std::pair<std::string, Json>> schedules{
      {"1F1B", "1f1b"}, {"GPipe", "gpipe"}, {"Interleaved1F1B", "interleaved_1f1b"}, {"ZBVZeroBubble", "zb_v"}};
  t.push_back(words("parallelism.pipeline_parallel_schedule", "strategy.schedule", schedules));
  t.push_back(words("experimental.pipeline_parallel_schedule", "strategy.schedule", schedules).last_in(kOldest));
  t.push_back(number("parallelism.pipeline_parallel_microbatch_size", "job.pipeline_microbatch"));
  t.push_back(number("experimental.pipeline_parallel_microbatches", "job.pipeline_microbatches").last_in(kOldest));
  t.push_back(number("parallelism.pipeline_parallel_layers_per_stage", "job.layers_per_chunk"));
  t.push_back(number("parallelism.pipeline_parallel_first_stage_less_layers", "job.first_stage_less"));
  t.push_back(number("parallelism.pipeline_parallel_last_stage_less_layers", "job.last_stage_less"));
  t.push_back(list("parallelism.module_fqns_per_model_part", "job.module_parts"));
  t.push_back(
      asked("parallelism.pipeline_parallel_split_points", "stages cut by hand: state strategy.layers_per_stage"));
  const std::vector<std::pair<std::string, Json>> exchanges{{"alltoall", "ring"}, {"allgather", "allgather"}};
  t.push_back(words("parallelism.context_parallel_rotate_method", "strategy.context", exchanges));
  t.push_back(words("experimental.context_parallel_rotate_method", "strategy.context", exchanges).last_in(kOldest));
  const std::vector<std::pair<std::string, Json>> reshard{
      {"default", "auto"}, {"always", "always"}, {"never", "never"}};
  t.push_back(words("parallelism.fsdp_reshard_after_forward", "strategy.fsdp.reshard_after_forward", reshard));
  t.push_back(toggle("parallelism.enable_async_tensor_parallel", "strategy.overlap.tp"));
  t.push_back(toggle("experimental.enable_async_tensor_parallel", "strategy.overlap.tp").last_in(kOldest));
  t.push_back(toggle("compile.enable_async_tensor_parallel", "strategy.overlap.tp").only_read());
  t.push_back(toggle("parallelism.enable_sequence_parallel", "strategy.sequence_parallel").only_read());
  t.push_back(words("parallelism.expert_parallel_comm_backend", "job.expert_backend",
                    {{"standard", "standard"}, {"deepep", "deepep"}}));
}

void add_training_of_torchtitan(std::vector<Term>& t) {
  t.push_back(number("training.local_batch_size", "job.local_batch"));
  t.push_back(number("training.batch_size", "job.local_batch").last_in(kOldest));
  t.push_back(number("training.global_batch_size", "job.global_batch"));
  t.push_back(number("training.seq_len", "training.sequence_length"));
  t.push_back(number("training.steps", "job.steps"));
  t.push_back(number("training.max_norm", "job.clip"));
  t.push_back(
      words("training.mixed_precision_param", "job.parameter_type", {{"bfloat16", "bf16"}, {"float32", "fp32"}}));
  t.push_back(words("training.mixed_precision_reduce", "training.gradient_dtype", {{"float32", "fp32"}}));
  t.push_back(words("training.dtype", "job.training_type", {{"bfloat16", "bf16"}, {"float32", "fp32"}}));
  t.push_back(toggle("training.enable_cpu_offload", "job.cpu_offload"));
  t.push_back(toggle("experimental.enable_cpu_offload", "job.cpu_offload").only_read());
  t.push_back(toggle("compile.enable", "kernels.compile"));
  t.push_back(toggle("training.compile", "kernels.compile").last_in(kFirst));
  t.push_back(list("compile.components", "job.compiled"));
  t.push_back(number("debug.seed", "training.seed"));
  t.push_back(number("training.seed", "training.seed").last_in(kFirst));
  t.push_back(words("optimizer.name", "training.optimizer", {{"AdamW", "adamw"}, {"Adam", "adam"}}));
  t.push_back(number("optimizer.lr", "training.learning_rate"));
  t.push_back(number("optimizer.weight_decay", "training.weight_decay"));
  t.push_back(
      words("activation_checkpoint.mode", "job.checkpoint_mode",
            {{"none", "none"}, {"full", "full"}, {"selective", "selective"}, {"memory_budget", "memory_budget"}}));
  t.push_back(text("activation_checkpoint.selective_ac_option", "job.selective_option"));
  t.push_back(list("model.converters", "job.converters"));
  t.push_back(toggle("float8.enable_float8_linear", "job.float8").last_in(kOldest));
  for (const std::string group : {"quantize.linear.float8", "float8"}) {
    const bool now = group.starts_with("quantize");
    const auto spelled = [&](Term term) { t.push_back(now ? std::move(term) : std::move(term).last_in(kFirst)); };
    spelled(words(group + ".recipe_name", "training.fp8.recipe",
                  {{"tensorwise", "tensorwise"}, {"rowwise", "rowwise"}, {"rowwise_with_gw_hp", nullptr}}));
    spelled(toggle(group + ".enable_fsdp_float8_all_gather", "training.fp8.parameters"));
  }
  t.push_back(words("optimizer.implementation", "job.optimizer_kind",
                    {{"fused", "fused"}, {"foreach", "foreach"}, {"for-loop", "for-loop"}}));
}

void add_model_of_torchtitan(std::vector<Term>& t) {
  t.push_back(text("model.name", "job.model_name"));
  t.push_back(text("model.flavor", "job.flavor"));
  t.push_back(text("hf_transformers.model", "model.name").only_read());
}

void ignore_torchtitan(std::vector<Term>& t) {
  ignore(t, "data and tokenizer: input is not waited for unless a scenario says so",
         {"training.dataset*", "training.dataloader*", "model.tokenizer*", "model.hf_assets_path", "data.*",
          "dataloader.*", "model.print_after_conversion", "encoder.*", "hf_transformers.*", "model.hf_*"});
  ignore(t, "logging and profiling: no effect on a step that is not logged",
         {"job.*", "metrics.*", "profiling.*", "comm.*", "memory_estimation.*", "debug.*",
          "activation_checkpoint.visualize*", "training.gc_debug"});
  ignore(t, "checkpoints, evaluation and when the run ends: not part of a step",
         {"checkpoint.*", "validation.*", "fault_tolerance.*", "training.warmup_steps", "eval.*", "inference.*"});
  ignore(t, "schedule of the learning rate and constants of the update: a step takes the same time with any",
         {"lr_scheduler.*", "optimizer.*", "training.classifer_free_guidance_prob",
          "training.classifier_free_guidance_prob"});
  ignore(t, "has an effect, and no key says it: predictions leave it out",
         {"parallelism.disable_loss_parallel",
          "training.disable_loss_parallel",
          "parallelism.context_parallel_load_balancer",
          "parallelism.enable_compiled_autograd",
          "experimental.enable_compiled_autograd",
          "parallelism.deepep.*",
          "activation_checkpoint.*",
          "compile.*",
          "training.gc_freq",
          "float8.*",
          "quantize.*",
          "mx.*",
          "training.deterministic",
          "model.norm_type",
          "model.use_flex_attn",
          "model.attn_mask_type",
          "experimental.*",
          "training.mixed_precision_*",
          "training.data_parallel_type",
          "custom_args.*",
          "training.enable_fp8_linear"});
}

Language torchtitan() {
  Language out{"torchtitan", "torchtitan", {}};
  out.newest = "0.2.2";
  add_axes_of_torchtitan(out.terms);
  add_training_of_torchtitan(out.terms);
  add_model_of_torchtitan(out.terms);
  ignore_torchtitan(out.terms);
  out.fallbacks = {{"training.sequence_length", 2048}};
  return out;
}

}  // namespace

const Language& torchtitan_words() {
  static const Language language = torchtitan();
  return language;
}

namespace {

[[maybe_unused]] const bool entered_torchtitan =
    languages().add({"torchtitan", "places in a train.toml of torchtitan", {}, torchtitan_words()});

}  // namespace

}  // namespace rehearse::translate
