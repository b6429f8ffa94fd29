// llm-foundry, nanotron, GPT-NeoX, llm.c and the variables of NVIDIA's MLPerf submissions. Facts from
// mosaicml/llm-foundry
// @ecf60336 (0.21.0) llmfoundry/models/mpt/configuration_mpt.py and command_utils/train.py, huggingface/nanotron
// @2411b022 src/nanotron/config, EleutherAI/gpt-neox @ea7aefd8 megatron/neox_arguments, karpathy/llm.c @f1e2ace651495
// train_gpt2.cu, mlcommons/training_results_v5.1 @441d65f4445c NVIDIA/benchmarks/llama31_405b.

#include "core/translate/language.hpp"

namespace rehearse::translate {

namespace {

Language llm_foundry() {
  Language out{"llm-foundry", "llm-foundry", {}};
  std::vector<Term>& t = out.terms;
  t.push_back(number("global_train_batch_size", "training.global_batch"));
  t.push_back(number("device_train_microbatch_size", "strategy.microbatch"));
  t.push_back(number("max_seq_len", "training.sequence_length"));
  t.push_back(number("variables.max_seq_len", "training.sequence_length"));
  t.push_back(words("precision", "job.trainer_precision",
                    {{"amp_bf16", "bf16"}, {"amp_fp16", "fp16"}, {"amp_fp8", "fp8"}, {"fp32", "fp32"}}));
  t.push_back(number("model.d_model", "model.hidden"));
  t.push_back(number("model.n_heads", "model.heads"));
  t.push_back(number("model.n_layers", "model.layers"));
  t.push_back(number("model.expansion_ratio", "model.expansion"));
  t.push_back(number("model.vocab_size", "model.vocabulary"));
  t.push_back(number("model.max_seq_len", "model.positions"));
  t.push_back(toggle("model.no_bias", "model.bias", false, true));
  t.push_back(toggle("model.tie_word_embeddings", "model.tied"));
  t.push_back(text("model.pretrained_model_name_or_path", "model.name"));
  for (const std::string m : {"model.attn_config.", "model."}) {
    t.push_back(
        words(m + "attn_impl", "kernels.attention", {{"flash", "flash"}, {"triton", "flash"}, {"torch", "unfused"}}));
    t.push_back(toggle(m + "alibi", "model.alibi"));
    t.push_back(number(m + "kv_n_heads", "model.kv_heads_alone"));
  }
  t.push_back(words("fsdp_config.sharding_strategy", "job.fsdp_strategy",
                    {{"FULL_SHARD", "full_shard"},
                     {"SHARD_GRAD_OP", "shard_grad_op"},
                     {"NO_SHARD", "no_shard"},
                     {"HYBRID_SHARD", "hybrid_shard"},
                     {"_HYBRID_SHARD_ZERO2", "hybrid_shard_zero2"}}));
  t.push_back(words("fsdp_config.mixed_precision", "training.gradient_dtype",
                    {{"PURE", "model"}, {"DEFAULT", "fp32"}, {"FULL", "fp32"}}));
  t.push_back(toggle("fsdp_config.activation_checkpointing", "strategy.recompute", "full", "none"));
  t.push_back(toggle("fsdp_config.activation_checkpointing_reentrant", "framework.checkpoints", "megatron", "pytorch"));
  t.push_back(toggle("fsdp_config.activation_cpu_offload", "job.activation_offload"));
  t.push_back(toggle("fsdp_config.limit_all_gathers", "strategy.fsdp.limit_all_gathers"));
  t.push_back(toggle("fsdp_config.forward_prefetch", "job.forward_prefetch"));
  t.push_back(words("fsdp_config.backward_prefetch", "strategy.fsdp.prefetch_backward",
                    {{"BACKWARD_PRE", 1}, {"BACKWARD_POST", 0}, {"NO_PREFETCH", 0}}));
  t.push_back(words("optimizer.name", "training.optimizer",
                    {{"decoupled_adamw", "adamw"}, {"adamw", "adamw"}, {"adam", "adam"}}));
  t.push_back(number("optimizer.lr", "training.learning_rate"));
  t.push_back(number("optimizer.weight_decay", "training.weight_decay"));
  t.push_back(number("optimizers.lr", "training.learning_rate"));
  t.push_back(number("algorithms.gradient_clipping.clipping_threshold", "job.clip"));
  t.push_back(number("seed", "training.seed"));
  ignore(t, "has an effect, and no key says it: predictions leave it out",
         {"fsdp_config.*", "compile_config.*", "model.*"});
  ignore(t, "the run's bookkeeping: no effect on a step",
         {"optimizer.*",
          "train_loader.*",
          "eval_loader.*",
          "tokenizer.*",
          "scheduler.*",
          "callbacks.*",
          "loggers.*",
          "algorithms.*",
          "eval_*",
          "max_duration",
          "run_name",
          "data_*",
          "progress_bar",
          "log_to_console",
          "console_log_interval",
          "save_*",
          "load_*",
          "variables.*",
          "device_eval_batch_size",
          "global_seed",
          "icl_*",
          "dist_timeout",
          "python_log_level",
          "autoresume",
          "name",
          "image",
          "gpu*",
          "cluster",
          "integrations*",
          "command"});
  return out;
}

Language nanotron() {
  Language out{"nanotron", "nanotron", {}};
  std::vector<Term>& t = out.terms;
  t.push_back(number("parallelism.dp", "strategy.dp"));
  t.push_back(number("parallelism.tp", "strategy.tp"));
  t.push_back(number("parallelism.pp", "strategy.pp"));
  t.push_back(number("parallelism.context_parallel_size", "strategy.cp"));
  t.push_back(number("parallelism.expert_parallel_size", "strategy.ep"));
  t.push_back(words("parallelism.pp_engine", "strategy.schedule", {{"1f1b", "1f1b"}, {"afab", "gpipe"}}));
  t.push_back(
      words("parallelism.tp_mode", "strategy.sequence_parallel", {{"REDUCE_SCATTER", true}, {"ALL_REDUCE", false}}));
  t.push_back(toggle("parallelism.tp_linear_async_communication", "strategy.overlap.tp"));
  t.push_back(toggle("parallelism.recompute_layer", "strategy.recompute", "full", "none"));
  t.push_back(number("tokens.sequence_length", "training.sequence_length"));
  t.push_back(number("tokens.micro_batch_size", "strategy.microbatch"));
  t.push_back(number("tokens.batch_accumulation_per_replica", "job.accumulation"));
  t.push_back(number("tokens.train_steps", "job.steps"));
  t.push_back(number("optimizer.zero_stage", "job.zero"));
  t.push_back(toggle("optimizer.accumulate_grad_in_fp32", "training.gradient_dtype", "fp32", "model"));
  t.push_back(number("optimizer.clip_grad", "job.clip"));
  t.push_back(number("optimizer.weight_decay", "training.weight_decay"));
  t.push_back(number("optimizer.learning_rate_scheduler.learning_rate", "training.learning_rate"));
  t.push_back(
      words("model.dtype", "job.trainer_precision", {{"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}}));
  t.push_back(number("model.ddp_bucket_cap_mb", "job.bucket_mib"));
  t.push_back(number("model.make_vocab_size_divisible_by", "model.vocabulary_multiple"));
  const std::string m = "model.model_config.";
  t.push_back(number(m + "hidden_size", "model.hidden"));
  t.push_back(number(m + "num_hidden_layers", "model.layers"));
  t.push_back(number(m + "num_attention_heads", "model.heads"));
  t.push_back(number(m + "num_key_value_heads", "model.kv_heads_alone"));
  t.push_back(number(m + "intermediate_size", "model.ffn"));
  t.push_back(number(m + "vocab_size", "model.vocabulary"));
  t.push_back(number(m + "max_position_embeddings", "model.positions"));
  t.push_back(number(m + "rms_norm_eps", "model.norm_eps"));
  t.push_back(number(m + "rope_theta", "model.rope_theta"));
  t.push_back(toggle(m + "tie_word_embeddings", "model.tied"));
  t.push_back(number("general.seed", "training.seed"));
  ignore(t, "has an effect, and no key says it: predictions leave it out", {"parallelism.*", "model.*", "optimizer.*"});
  ignore(t, "the run's bookkeeping: no effect on a step",
         {"general.*", "checkpoints.*", "data_stages*", "logging.*", "tokenizer.*", "profiler*", "lighteval*",
          "s3_upload*", "tokens.*", "metrics_logging*"});
  out.fallbacks = {{"model.norm", "rms"},  {"model.position", "rope"},     {"model.activation", "swiglu"},
                   {"model.bias", false},  {"strategy.schedule", "gpipe"}, {"strategy.microbatch", 1},
                   {"job.accumulation", 1}};
  return out;
}

Language gpt_neox() {
  Language out{"GPT-NeoX", "gpt-neox", {}};
  std::vector<Term>& t = out.terms;
  t.push_back(number("pipe_parallel_size", "strategy.pp"));
  t.push_back(number("model_parallel_size", "strategy.tp"));
  t.push_back(number("train_batch_size", "job.global_batch"));
  t.push_back(number("train_micro_batch_size_per_gpu", "strategy.microbatch"));
  t.push_back(number("gradient_accumulation_steps", "job.accumulation"));
  t.push_back(number("num_layers", "model.layers"));
  t.push_back(number("hidden_size", "model.hidden"));
  t.push_back(number("num_attention_heads", "model.heads"));
  t.push_back(number("num_kv_heads", "model.kv_heads_alone"));
  t.push_back(number("intermediate_size", "model.ffn"));
  t.push_back(number("seq_length", "training.sequence_length"));
  t.push_back(number("max_position_embeddings", "model.positions"));
  t.push_back(words("norm", "model.norm",
                    {{"layernorm", "layer"},
                     {"rmsnorm", "rms"},
                     {"scalenorm", "layer"},
                     {"te_rmsnorm", "rms"},
                     {"te_layernorm", "layer"}}));
  t.push_back(words("pos_emb", "model.position",
                    {{"rotary", "rope"},
                     {"learned", "learned"},
                     {"alibi", "alibi"},
                     {"none", "none"},
                     {"sinusoidal", "learned"},
                     {"rpe", "none"}}));
  t.push_back(number("rotary_pct", "model.rope_fraction"));
  t.push_back(number("rotary_emb_base", "model.rope_theta"));
  t.push_back(toggle("no_weight_tying", "model.tied", false, true));
  t.push_back(toggle("gpt_j_residual", "model.parallel_residual"));
  t.push_back(words("activation", "model.activation",
                    {{"gelu", "gelu"}, {"swiglu", "swiglu"}, {"geglu", "geglu"}, {"relu", "gelu"}, {"silu", "gelu"}}));
  t.push_back(number("make_vocab_size_divisible_by", "model.vocabulary_multiple"));
  t.push_back(number("hidden_dropout", "model.hidden_dropout"));
  t.push_back(number("attention_dropout", "model.attention_dropout"));
  t.push_back(number("zero_optimization.stage", "job.zero"));
  t.push_back(number("zero_optimization.reduce_bucket_size", "job.bucket_elements"));
  t.push_back(toggle("zero_optimization.overlap_comm", "strategy.overlap.grad_reduce"));
  t.push_back(toggle("zero_optimization.cpu_offload", "job.optimizer_offload"));
  t.push_back(toggle("checkpoint_activations", "strategy.recompute", "full", "none"));
  t.push_back(number("checkpoint_num_layers", "strategy.recompute_layers"));
  t.push_back(words("precision", "job.trainer_precision", {{"bfloat16", "bf16"}, {"fp16", "fp16"}, {"fp32", "fp32"}}));
  t.push_back(toggle("fp16.enabled", "job.fp16"));
  t.push_back(toggle("fp16.fp16", "job.fp16"));
  t.push_back(words("fp16.type", "job.fp16_type", {{"bfloat16", "bf16"}, {"fp16", "fp16"}}));
  t.push_back(toggle("bf16.enabled", "job.bf16"));
  t.push_back(words("data_types.grad_accum_dtype", "job.gradient_type",
                    {{"fp32", "fp32"}, {"bf16", "model"}, {"fp16", "model"}}));
  t.push_back(words("optimizer.type", "job.optimizer",
                    {{"Adam", "adam"}, {"SGD", "sgd"}, {"OneBitAdam", "adam"}, {"Lion", nullptr}}));
  t.push_back(number("optimizer.params.lr", "training.learning_rate"));
  t.push_back(number("weight_decay", "training.weight_decay"));
  t.push_back(number("gradient_clipping", "job.clip"));
  t.push_back(toggle("sequence_parallel", "strategy.sequence_parallel"));
  t.push_back(number("train_iters", "job.steps"));
  t.push_back(list("attention_config", "job.attention_config"));
  t.push_back(number("num_gpus", "job.gpus_per_node"));
  ignore(t, "has an effect, and no key says it: predictions leave it out",
         {"zero_optimization.*", "*_fusion", "scaled_*", "partition_activations", "synchronize_each_layer",
          "output_layer_parallelism", "pipe_partition_method", "te_*", "fp32_allreduce", "communication_data_type",
          "bias_*", "rope_fusion", "data_types.*"});
  ignore(t, "the run's bookkeeping: no effect on a step",
         {"data_*",
          "vocab_file",
          "merge_file",
          "save*",
          "load*",
          "eval_*",
          "log_*",
          "tensorboard*",
          "wandb*",
          "use_wandb",
          "steps_per_print",
          "wall_clock_breakdown",
          "distributed_backend",
          "lr_*",
          "warmup",
          "min_lr",
          "optimizer.*",
          "fp16.*",
          "checkpoint*",
          "keep_last*",
          "hostsfile",
          "hostfile",
          "tokenizer*",
          "*init_method",
          "include*",
          "launcher",
          "deepspeed*",
          "*data_path*",
          "split",
          "scheduler.*",
          "use_*",
          "attention_softmax*",
          "mmap*"});
  out.fallbacks = {{"model.norm", "layer"}, {"model.position", "learned"}, {"model.activation", "gelu"},
                   {"model.bias", true},    {"model.tied", true},          {"model.vocabulary_multiple", 128}};
  return out;
}

/// Short options of train_gpt2cu.
Language llmc() {
  Language out{"llm.c", "llm.c", {}};
  std::vector<Term>& t = out.terms;
  t.push_back(number("-b", "strategy.microbatch"));
  t.push_back(number("-t", "training.sequence_length"));
  t.push_back(number("-d", "job.batch_tokens"));
  t.push_back(text("-e", "job.descriptor"));
  t.push_back(number("-z", "job.zero"));
  t.push_back(words("-r", "job.llmc_recompute", {{"0", 0}, {"1", 1}, {"2", 2}}));
  t.push_back(number("-c", "training.weight_decay"));
  t.push_back(number("-l", "training.learning_rate"));
  t.push_back(number("-x", "job.steps"));
  t.push_back(number("-pn", "job.gpus"));
  t.push_back(number("-w", "job.master_weights"));
  ignore(t, "no effect on a step", {"-*"});
  return out;
}

/// What NVIDIA's config_*.sh export, read where the YAML that takes them is not at hand.
Language mlperf() {
  Language out{"MLPerf Training, NVIDIA", "nemo", {}};
  std::vector<Term>& t = out.terms;
  for (const char* name : {"TENSOR_MODEL_PARALLEL", "TP", "TENSOR_MODEL_PARALLEL_SIZE"})
    t.push_back(number(name, "strategy.tp"));
  for (const char* name : {"PIPELINE_MODEL_PARALLEL", "PP"}) t.push_back(number(name, "strategy.pp"));
  for (const char* name : {"CONTEXT_PARALLEL", "CP"}) t.push_back(number(name, "strategy.cp"));
  t.push_back(number("EXPERT_MODEL_PARALLEL", "strategy.ep"));
  t.push_back(text("INTERLEAVED_PIPELINE", "job.interleaved"));
  t.push_back(number("MICRO_BATCH_SIZE", "strategy.microbatch"));
  t.push_back(number("MBS", "strategy.microbatch"));
  t.push_back(number("GLOBAL_BATCH_SIZE", "training.global_batch"));
  t.push_back(number("MINIBS", "job.local_batch"));
  t.push_back(number("DGXNNODES", "job.nodes"));
  t.push_back(number("DGXNGPU", "job.gpus_per_node"));
  t.push_back(text("DGXSYSTEM", "job.system"));
  t.push_back(number("NUM_LAYERS", "model.layers"));
  t.push_back(number("OVERWRITTEN_NUM_LAYERS", "model.layers"));
  t.push_back(number("HIDDEN_SIZE", "model.hidden"));
  t.push_back(number("FFN_HIDDEN_SIZE", "model.ffn"));
  t.push_back(number("NUM_ATTENTION_HEADS", "model.heads"));
  t.push_back(number("ENCODER_SEQ_LENGTH", "training.sequence_length"));
  t.push_back(number("MAX_SEQLEN", "training.sequence_length"));
  t.push_back(toggle("SEQ_PARALLEL", "strategy.sequence_parallel"));
  t.push_back(toggle("SP", "strategy.sequence_parallel"));
  t.push_back(toggle("FP8", "job.fp8_on"));
  t.push_back(toggle("FP4", "job.fp4"));
  t.push_back(
      words("FP8_RECIPE", "training.fp8.recipe",
            {{"delayed", "delayed"}, {"tensorwise", "tensorwise"}, {"blockwise", "blockwise"}, {"mxfp8", "mxfp8"}}));
  t.push_back(toggle("FP8_PARAM_GATHER", "training.fp8.parameters"));
  t.push_back(toggle("FP8_DPA", "training.fp8.attention"));
  t.push_back(toggle("TP_COMM_OVERLAP", "strategy.overlap.tp"));
  t.push_back(toggle("USE_DIST_OPTIMIZER", "job.distributed_optimizer"));
  t.push_back(number("BUCKET_CAP_MB", "job.bucket_mib"));
  t.push_back(words("ACT_CKPT_GRANULARITY", "strategy.recompute",
                    {{"null", nullptr}, {"full", "full"}, {"selective", "selective"}}));
  t.push_back(toggle("LAYER_CUDA_GRAPH", "kernels.cuda_graphs"));
  t.push_back(toggle("FULL_CUDA_GRAPH", "kernels.cuda_graphs"));
  t.push_back(number("DEFER_EMBEDDING_WGRAD_COMPUTE", "job.nothing"));
  t.push_back(toggle("ASYNC_GRAD_ALLREDUCE", "strategy.overlap.grad_reduce"));
  ignore(t, "variables of the scripts' own that nothing here reads", {"*"});
  return out;
}

[[maybe_unused]] const bool entered_foundry =
    languages().add({"llm_foundry", "places in a YAML of llm-foundry", {}, llm_foundry()});
[[maybe_unused]] const bool entered_nanotron =
    languages().add({"nanotron", "places in a YAML of nanotron", {}, nanotron()});
[[maybe_unused]] const bool entered_neox =
    languages().add({"gpt_neox", "places in a YAML of GPT-NeoX", {}, gpt_neox()});
[[maybe_unused]] const bool entered_llmc = languages().add({"llm_c", "options of llm.c's train_gpt2cu", {}, llmc()});
[[maybe_unused]] const bool entered_mlperf =
    languages().add({"mlperf", "variables of MLPerf's configuration scripts", {}, mlperf()});

}  // namespace

}  // namespace rehearse::translate
