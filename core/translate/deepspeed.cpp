// DeepSpeed: places in its JSON, and the options of its launcher. Facts from deepspeedai/DeepSpeed @edaa7221267243
// (0.19.6) deepspeed/runtime/config.py, constants.py, zero/config.py, zero/offload_config.py, zero/zenflow_config.py,
// activation_checkpointing/config.py and launcher/runner.py. Buckets count elements there.

#include "core/translate/language.hpp"

namespace rehearse::translate {

namespace {

const std::vector<std::pair<std::string, Json>> kDevices{{"none", "none"}, {"cpu", "cpu"}, {"nvme", "nvme"}};

void add_batches_of_deepspeed(std::vector<Term>& t) {
  t.push_back(number("train_batch_size", "job.global_batch"));
  t.push_back(number("train_micro_batch_size_per_gpu", "strategy.microbatch"));
  t.push_back(number("gradient_accumulation_steps", "job.accumulation"));
  t.push_back(number("tensor_parallel.autotp_size", "strategy.tp"));
  t.push_back(number("tensor_parallel.tp.tp_size", "strategy.tp").only_read());
  t.push_back(number("tensor_parallel.tp_size", "strategy.tp").only_read());
  t.push_back(number("sequence_parallel_size", "strategy.cp"));
  t.push_back(number("data_parallel_size", "job.data_parallel"));
  t.push_back(number("pipeline.stages", "strategy.pp").only_read());
}

void add_zero(std::vector<Term>& t) {
  const std::string z = "zero_optimization.";
  t.push_back(number(z + "stage", "job.zero"));
  t.push_back(number(z + "reduce_bucket_size", "job.bucket_elements"));
  t.push_back(toggle(z + "overlap_comm", "strategy.overlap.grad_reduce"));
  t.push_back(number(z + "stage3_prefetch_bucket_size", "strategy.zero3.prefetch_bucket"));
  t.push_back(number(z + "prefetch_bucket_size", "strategy.zero3.prefetch_bucket").only_read());
  t.push_back(number(z + "stage3_param_persistence_threshold", "strategy.zero3.persistence_threshold"));
  t.push_back(number(z + "param_persistence_threshold", "strategy.zero3.persistence_threshold").only_read());
  t.push_back(number(z + "stage3_max_live_parameters", "strategy.zero3.max_live_parameters"));
  t.push_back(number(z + "max_live_parameters", "strategy.zero3.max_live_parameters").only_read());
  t.push_back(number(z + "stage3_max_reuse_distance", "strategy.zero3.reuse_distance"));
  t.push_back(number(z + "max_reuse_distance", "strategy.zero3.reuse_distance").only_read());
  t.push_back(words(z + "offload_optimizer.device", "job.offload_optimizer", kDevices));
  t.push_back(words(z + "offload_param.device", "job.offload_parameters", kDevices));
  t.push_back(words(z + "cpu_offload", "job.offload_optimizer", {{"true", "cpu"}, {"false", "none"}}).only_read());
  t.push_back(
      words(z + "cpu_offload_params", "job.offload_parameters", {{"true", "cpu"}, {"false", "none"}}).only_read());
  t.push_back(number(z + "mics_shard_size", "job.shard"));
  t.push_back(number(z + "zero_hpz_partition_size", "job.secondary_shard"));
}

void add_training_of_deepspeed(std::vector<Term>& t) {
  t.push_back(toggle("bf16.enabled", "job.bf16"));
  t.push_back(toggle("bfloat16.enabled", "job.bf16").only_read());
  t.push_back(toggle("fp16.enabled", "job.fp16"));
  t.push_back(words("data_types.grad_accum_dtype", "job.gradient_type",
                    {{"fp32", "fp32"}, {"bf16", "model"}, {"fp16", "model"}}));
  t.push_back(words("communication_data_type", "job.wire_type",
                    {{"fp32", "fp32"}, {"bf16", "model"}, {"fp16", "model"}, {"bfp16", "model"}}));
  t.push_back(words("optimizer.type", "job.optimizer",
                    {{"Adam", "adam"},
                     {"AdamW", "adamw"},
                     {"Lamb", "lamb"},
                     {"SGD", "sgd"},
                     {"OneBitAdam", "adam"},
                     {"DeepSpeedCPUAdam", "adam"},
                     {"FusedAdam", "adam"}}));
  t.push_back(toggle("optimizer.params.adam_w_mode", "job.adam_w_mode"));
  t.push_back(number("optimizer.params.lr", "training.learning_rate"));
  t.push_back(number("optimizer.params.weight_decay", "training.weight_decay"));
  t.push_back(number("gradient_clipping", "job.clip"));
  t.push_back(toggle("activation_checkpointing.cpu_checkpointing", "job.checkpoints_on_cpu"));
  t.push_back(toggle("compile.deepcompile", "kernels.compile").only_read());
}

void ignore_deepspeed(std::vector<Term>& t) {
  ignore(t, "logging and profiling: no effect on a step that is not logged",
         {"steps_per_print", "wall_clock_breakdown", "dump_state", "tensorboard.*", "wandb.*", "csv_monitor.*",
          "flops_profiler.*", "comms_logger.*", "memory_breakdown", "monitor_config.*", "_comment", "comment",
          "activation_checkpointing.profile", "autotuning.*"});
  ignore(t, "checkpoints and evaluation: not part of a step",
         {"checkpoint.*", "zero_optimization.stage3_gather_16bit_weights_on_model_save",
          "zero_optimization.stage3_gather_fp16_weights_on_model_save",
          "zero_optimization.gather_16bit_weights_on_model_save", "zero_optimization.gather_fp16_weights_on_model_save",
          "zero_optimization.elastic_checkpoint", "zero_optimization.load_from_fp32_weights", "elasticity.*",
          "data_efficiency.*", "curriculum_learning.*"});
  ignore(t, "schedule of the learning rate and constants of the update: a step takes the same time with any",
         {"scheduler.*", "optimizer.params.*", "optimizer.legacy_fusion", "fp16.*", "bf16.auto_cast",
          "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "prescale_gradients",
          "gradient_predivide_factor", "seed", "amp.*", "nebula.*", "hybrid_engine.*", "progressive_layer_drop.*"});
  ignore(t, "has an effect, and no key says it: predictions leave it out",
         {"zero_optimization.*",
          "activation_checkpointing.*",
          "aio.*",
          "sparse_gradients",
          "sparse_attention.*",
          "disable_allgather",
          "allgather_size",
          "fp32_allreduce",
          "bf16.*",
          "pipeline.*",
          "communication_*",
          "seq_parallel_communication_data_type",
          "tensor_parallel.*",
          "compile.*",
          "torch_autocast.*",
          "zenflow.*",
          "use_data_before_expert_parallel",
          "data_types.*",
          "timers.*",
          "graph_harvesting",
          "compression_training.*",
          "dataloader_drop_last",
          "use_node_local_storage",
          "checkpoint_parallel_write_pipeline",
          "weight_quantization.*",
          "quantize_training.*",
          "optimizer.*"});
}

Language deepspeed() {
  Language out{"DeepSpeed", "deepspeed", {}};
  add_batches_of_deepspeed(out.terms);
  add_zero(out.terms);
  add_training_of_deepspeed(out.terms);
  ignore_deepspeed(out.terms);
  return out;
}

}  // namespace

const Language& deepspeed_words() {
  static const Language language = deepspeed();
  return language;
}

namespace {

[[maybe_unused]] const bool entered_deepspeed =
    languages().add({"deepspeed", "places in a DeepSpeed JSON", {}, deepspeed_words()});

/// What Megatron-DeepSpeed's pretrain_gpt.py takes besides Megatron's arguments: deepspeedai/Megatron-DeepSpeed
/// @4efb479d5317 megatron/arguments.py, bigscience-workshop/Megatron-DeepSpeed @8387ae17c478 megatron/arguments.py.
Language megatron_deepspeed() {
  Language out{"Megatron-DeepSpeed", "megatron-deepspeed", {}};
  std::vector<Term>& t = out.terms;
  t.push_back(number("--zero-stage", "job.zero"));
  t.push_back(number("--ds-sequence-parallel-size", "strategy.cp"));
  t.push_back(number("--moe-expert-parallel-size", "strategy.ep"));
  t.push_back(number("--moe-train-capacity-factor", "training.experts.capacity_factor"));
  t.push_back(number("--topk", "model.top_k"));
  t.push_back(number("--expert-interval", "model.expert_interval"));
  t.push_back(words("--normalization", "model.norm", {{"rmsnorm", "rms"}, {"layernorm", "layer"}}));
  t.push_back(text("--deepspeed_config", "file.deepspeed"));
  t.push_back(text("--deepspeed-config", "file.deepspeed"));
  t.push_back(mark("--deepspeed", "job.deepspeed"));
  t.push_back(mark("--no-pipeline-parallel", "job.no_pipeline"));
  ignore(t, "has an effect, and no key says it: predictions leave it out",
         {"--deepspeed-activation-checkpointing", "--deepspeed*", "--mlp-type", "--kd*", "--use-node-local-storage",
          "--random-ltd*", "--compression-training"});
  return out;
}

[[maybe_unused]] const bool entered_megatron_deepspeed = languages().add(
    {"megatron_deepspeed", "arguments of Megatron-DeepSpeed besides Megatron-LM's", {}, megatron_deepspeed()});

}  // namespace

}  // namespace rehearse::translate
