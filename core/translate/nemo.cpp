// NeMo 1 and Megatron-Bridge: places in their YAML. What is not here is Megatron's, by its own name under `model`.
// Facts from NVIDIA/NeMo @2baef811f213 (v1.20.0) examples/nlp/language_modeling/conf/megatron_gpt_config.yaml and
// @2b03b748bb7d (v2.3.0), NVIDIA/NeMo-Framework-Launcher @26e42fa91d9e launcher_scripts/conf/training,
// NVIDIA-NeMo/Megatron-Bridge
// @51885cf132b2 (0.6) src/megatron/bridge/training/config.py and mixed_precision.py.

#include "core/translate/language.hpp"

namespace rehearse::translate {

namespace {

const std::vector<std::pair<std::string, Json>> kActivations{{"gelu", "gelu"},
                                                             {"geglu", "geglu"},
                                                             {"swiglu", "swiglu"},
                                                             {"fast-swiglu", "swiglu"},
                                                             {"fast-geglu", "geglu"},
                                                             {"reglu", "geglu"},
                                                             {"squared-relu", "squared_relu"},
                                                             {"squared_relu", "squared_relu"},
                                                             {"silu", "silu"},
                                                             {"fast_gelu", "gelu"},
                                                             {"openai_gelu", "gelu"}};

void add_sizes(std::vector<Term>& t) {
  for (const std::string m : {"model.", "training.model.", ""}) {
    t.push_back(number(m + "encoder_seq_length", "training.sequence_length"));
    t.push_back(number(m + "seq_length", "training.sequence_length"));
    t.push_back(number(m + "virtual_pipeline_model_parallel_size", "strategy.virtual_stages"));
    t.push_back(number(m + "num_moe_experts", "model.experts"));
    t.push_back(number(m + "num_query_groups", "model.kv_heads_alone"));
    t.push_back(number(m + "layernorm_epsilon", "model.norm_eps"));
    t.push_back(words(
        m + "normalization", "model.norm",
        {{"rmsnorm", "rms"}, {"layernorm", "layer"}, {"layernorm1p", "layer"}, {"low_precision_layernorm", "layer"}}));
    t.push_back(words(m + "activation", "model.activation", kActivations));
    t.push_back(words(m + "activation_func", "model.activation", kActivations));
    t.push_back(toggle(m + "gated_linear_unit", "model.gated"));
    t.push_back(toggle(m + "bias", "model.bias"));
    t.push_back(toggle(m + "add_bias_linear", "model.bias"));
    t.push_back(toggle(m + "share_embeddings_and_output_weights", "model.tied"));
    t.push_back(number(m + "rotary_percentage", "model.rope_fraction"));
    t.push_back(number(m + "rotary_percent", "model.rope_fraction"));
    t.push_back(number(m + "ffn_dropout", "model.hidden_dropout"));
    t.push_back(toggle(m + "apply_rope_fusion", "job.nothing", nullptr, nullptr));
  }
}

void add_training_of_nemo(std::vector<Term>& t) {
  for (const std::string m : {"model.", "training.model.", ""}) {
    t.push_back(number(m + "micro_batch_size", "strategy.microbatch"));
    t.push_back(number(m + "global_batch_size", "training.global_batch"));
    t.push_back(words(m + "activations_checkpoint_granularity", "strategy.recompute",
                      {{"null", nullptr}, {"full", "full"}, {"selective", "selective"}}));
    t.push_back(words(m + "activations_checkpoint_method", "job.checkpoint_method",
                      {{"null", nullptr}, {"uniform", "uniform"}, {"block", "block"}}));
    t.push_back(number(m + "activations_checkpoint_num_layers", "job.checkpoint_layers"));
    t.push_back(toggle(m + "fp8", "job.fp8_on"));
    t.push_back(mark(m + "fp8_e4m3", "job.fp8", "e4m3"));
    t.push_back(mark(m + "fp8_hybrid", "job.fp8", "hybrid"));
    t.push_back(toggle(m + "fp8_params", "training.fp8.parameters"));
    t.push_back(toggle(m + "fp8_param", "training.fp8.parameters"));
    t.push_back(toggle(m + "fp8_dot_product_attention", "training.fp8.attention"));
    t.push_back(toggle(m + "fp4", "job.fp4"));
    t.push_back(toggle(m + "ub_tp_comm_overlap", "strategy.overlap.tp"));
    t.push_back(toggle(m + "tp_comm_overlap", "strategy.overlap.tp"));
    t.push_back(toggle(m + "overlap_p2p_comm", "strategy.overlap.pp"));
    t.push_back(toggle(m + "gradient_accumulation_fusion", "framework.fused_gradient_accumulation"));
    t.push_back(toggle(m + "bias_activation_fusion", "framework.fused_activation"));
    t.push_back(toggle(m + "use_flash_attention", "kernels.attention", "flash", nullptr));
    t.push_back(toggle(m + "cpu_offloading", "job.activation_offload"));
    t.push_back(toggle(m + "fsdp", "job.fsdp_on"));
    t.push_back(toggle(m + "cross_entropy_loss_fusion", "job.loss_fusion"));
    t.push_back(toggle(m + "enable_cuda_graph", "kernels.cuda_graphs"));
    t.push_back(number(m + "moe_expert_capacity_factor", "training.experts.capacity_factor"));
    t.push_back(toggle(m + "moe_pad_expert_input_to_capacity", "training.experts.pad_to_capacity"));
  }
  for (const std::string o : {"model.optim.", "training.model.optim.", "optim."}) {
    t.push_back(words(o + "name", "job.optim_name",
                      {{"fused_adam", "fused_adam"},
                       {"distributed_fused_adam", "distributed_fused_adam"},
                       {"mcore_distributed_optim", "distributed_fused_adam"},
                       {"adam", "fused_adam"},
                       {"adamw", "fused_adam"},
                       {"megatron_fused_adam", "fused_adam"}}));
    t.push_back(number(o + "lr", "training.learning_rate"));
    t.push_back(number(o + "weight_decay", "training.weight_decay"));
    t.push_back(number(o + "bucket_cap_mb", "job.bucket_mib"));
    t.push_back(
        words(o + "grad_sync_dtype", "job.gradient_type", {{"fp32", "fp32"}, {"bf16", "model"}, {"fp16", "model"}}));
    t.push_back(toggle(o + "overlap_grad_sync", "strategy.overlap.grad_reduce"));
    t.push_back(toggle(o + "overlap_param_sync", "strategy.overlap.param_gather"));
    t.push_back(toggle(o + "fp8_params", "training.fp8.parameters"));
  }
  t.push_back(text("trainer.num_nodes", "job.nodes"));
  t.push_back(text("trainer.devices", "job.gpus_per_node"));
  t.push_back(text("training.trainer.num_nodes", "job.nodes"));
  t.push_back(text("training.trainer.devices", "job.gpus_per_node"));
  t.push_back(words("trainer.precision", "job.trainer_precision",
                    {{"16", "fp16"},
                     {"32", "fp32"},
                     {"bf16", "bf16"},
                     {"bf16-mixed", "bf16"},
                     {"16-mixed", "fp16"},
                     {"32-true", "fp32"},
                     {"bf16-true", "bf16"}}));
  t.push_back(number("trainer.gradient_clip_val", "job.clip"));
  t.push_back(number("trainer.max_steps", "job.steps"));
  t.push_back(text("model.peft.peft_scheme", "job.peft"));
  t.push_back(number("model.peft.lora_tuning.adapter_dim", "job.lora_rank"));
  t.push_back(number("model.peft.lora_tuning.alpha", "job.lora_alpha"));
  t.push_back(number("model.peft.lora_tuning.adapter_dropout", "job.lora_dropout"));
  t.push_back(list("model.peft.lora_tuning.target_modules", "job.lora_modules"));
  t.push_back(text("model.restore_from_path", "job.restored"));
}

void ignore_nemo(std::vector<Term>& t) {
  ignore(t, "the run's bookkeeping: no effect on a step",
         {"exp_manager.*",
          "run.*",
          "name",
          "hydra.*",
          "defaults*",
          "hydra/*",
          "trainer.*",
          "model.data.*",
          "model.tokenizer.*",
          "*data.*",
          "data.*",
          "inference.*",
          "model.inference.*",
          "restore_from_path",
          "training.run.*",
          "training.exp_manager.*",
          "training.trainer.*",
          "cluster.*",
          "wandb*",
          "stages*",
          "training",
          "conversion",
          "fine_tuning",
          "peft",
          "prompt_learning",
          "adapter_learning",
          "ia3_learning",
          "evaluation",
          "export",
          "rlhf*",
          "cluster",
          "cluster_type",
          "launcher_scripts_path",
          "data_dir",
          "base_results_dir",
          "env_vars.*",
          "container*",
          "numa_mapping.*",
          "training_config",
          "conversion_config",
          "fine_tuning_config",
          "peft_config",
          "prompt_learning_config",
          "adapter_learning_config",
          "ia3_learning_config",
          "evaluation_config",
          "data_config",
          "data_preparation*",
          "export_config",
          "*_config",
          "search_config",
          "partition",
          "account",
          "exclusive",
          "gpus_per_task",
          "gpus_per_node",
          "mem",
          "job_name_prefix",
          "srun_args*",
          "ckpt_path",
          "debug",
          "custom_config*",
          "checkpoint*",
          "logger.*",
          "scheduler.*",
          "profiling.*",
          "tokenizer.*",
          "dataset.*",
          "rng.*",
          "validation*",
          "train.eval_*",
          "train.exit_*",
          "train.manual_gc*",
          "train.train_sync*",
          "train.empty*",
          "train.skip*",
          "inprocess*",
          "straggler.*",
          "nvrx*",
          "ft.*",
          "rerun*",
          "model.restore*",
          "quantization.*",
          "model.name",
          "model.gc_interval",
          "model.wandb*",
          "model.nsys*",
          "model.nvtx*",
          "model.custom*",
          "model.hf*",
          "model._target_",
          "_target_",
          "*_target_",
          "rampup*",
          "--config*",
          "dist.*",
          "target"});
  for (const std::string m : {"model.", "training.model.", ""}) {
    for (const char* name : {"rampup_batch_size",
                             "use_cpu_initialization",
                             "init_method_std*",
                             "use_scaled_init_method",
                             "kv_channels_",
                             "apply_query_key_layer_scaling",
                             "pre_process",
                             "post_process",
                             "persist_layer_norm",
                             "headscale",
                             "transformer_block_type",
                             "openai_gelu",
                             "normalize_attention_scores",
                             "native_amp_*",
                             "hysteresis",
                             "fp32_residual_connection",
                             "fp16_lm_cross_entropy",
                             "seed",
                             "resume_from_checkpoint",
                             "onnx_safe",
                             "apex_transformer_log_level",
                             "gradient_as_bucket_view",
                             "sync_batch_comm",
                             "nsys_profile.*",
                             "optim.*",
                             "vocab_file",
                             "megatron_amp_O2",
                             "mcore_gpt",
                             "grad_*",
                             "transformer_engine",
                             "name",
                             "tokenizer.*",
                             "data.*",
                             "sharp",
                             "use_loss_scale",
                             "barrier_with_L1_time",
                             "batch_p2p_comm",
                             "num_micro_batches_with_partial_activation_checkpoints",
                             "activations_checkpoint_layers_per_pipeline",
                             "masked_softmax_fusion",
                             "bias_dropout_add_fusion",
                             "get_attention_mask_from_fusion",
                             "ub_*",
                             "reduce_amax",
                             "use_emha",
                             "fp8_*",
                             "nccl_*",
                             "enable_megatron_timers",
                             "megatron_timer_kwargs.*",
                             "cpu_offloading_*",
                             "precision",
                             "defer*",
                             "peft.*",
                             "gc_interval",
                             "rotary_base_",
                             "seq_len_interpolation_factor",
                             "share_*_",
                             "answer_only_loss",
                             "restore_from_*",
                             "save_nemo_on_validation_end",
                             "hidden_dropout_",
                             "use_te_*",
                             "layer_type",
                             "skip_*",
                             "load_directly_on_device",
                             "use_te_rng_tracker",
                             "enable_cuda_graph_",
                             "moe_*_",
                             "deterministic_mode",
                             "disable_*",
                             "overlap_p2p_comm_",
                             "custom.*",
                             "log_*",
                             "ckpt_*",
                             "dist_ckpt*",
                             "async_*",
                             "params_dtype",
                             "attention_softmax_in_fp32",
                             "autocast*",
                             "external_cuda_graph",
                             "tp_comm_overlap_cfg*",
                             "convert_*",
                             "perform_initialization"}) {
      Term term{m + name, Sense::ignored};
      term.note = "no effect on a step that a key could say";
      t.push_back(std::move(term));
    }
  }
}

Language nemo() {
  Language out{"NeMo", "nemo", {}};
  add_sizes(out.terms);
  add_training_of_nemo(out.terms);
  ignore_nemo(out.terms);
  return out;
}

Language bridge() {
  Language out{"Megatron-Bridge", "megatron-bridge", {}};
  std::vector<Term>& t = out.terms;
  add_sizes(t);
  add_training_of_nemo(t);
  t.push_back(number("train.micro_batch_size", "strategy.microbatch"));
  t.push_back(number("train.global_batch_size", "training.global_batch"));
  t.push_back(number("train.train_iters", "job.steps"));
  t.push_back(number("dataset.sequence_length", "training.sequence_length"));
  t.push_back(number("dataset.seq_length", "training.sequence_length"));
  t.push_back(words("mixed_precision", "job.recipe",
                    {{"bf16_mixed", "bf16"},
                     {"fp16_mixed", "fp16"},
                     {"bf16_with_fp8_current_scaling_mixed", "tensorwise"},
                     {"bf16_with_fp8_delayed_scaling_mixed", "delayed"},
                     {"bf16_with_mxfp8_mixed", "mxfp8"},
                     {"bf16_with_fp8_subchannel_scaling_mixed", "blockwise"},
                     {"bf16_with_nvfp4_mixed", "fp4"}}));
  t.push_back(toggle("mixed_precision.grad_reduce_in_fp32", "job.gradients_fp32"));
  t.push_back(toggle("ddp.grad_reduce_in_fp32", "job.gradients_fp32"));
  for (const std::string c : {"comm_overlap.", "ddp."}) {
    t.push_back(toggle(c + "tp_comm_overlap", "strategy.overlap.tp"));
    t.push_back(toggle(c + "overlap_grad_reduce", "strategy.overlap.grad_reduce"));
    t.push_back(toggle(c + "overlap_param_gather", "strategy.overlap.param_gather"));
    t.push_back(number(c + "bucket_size", "job.bucket_parameters"));
    t.push_back(toggle(c + "overlap_moe_expert_parallel_comm", "job.expert_overlap"));
  }
  t.push_back(toggle("ddp.use_distributed_optimizer", "job.distributed_optimizer"));
  t.push_back(toggle("optimizer.use_distributed_optimizer", "job.distributed_optimizer"));
  t.push_back(toggle("ddp.use_megatron_fsdp", "job.megatron_fsdp"));
  t.push_back(toggle("dist.use_megatron_fsdp", "job.megatron_fsdp"));
  t.push_back(words("ddp.data_parallel_sharding_strategy", "job.sharding",
                    {{"no_shard", "no_shard"},
                     {"optim", "optim"},
                     {"optim_grads", "optim_grads"},
                     {"optim_grads_params", "optim_grads_params"}}));
  t.push_back(number("optimizer.lr", "training.learning_rate"));
  t.push_back(number("optimizer.weight_decay", "training.weight_decay"));
  t.push_back(number("optimizer.clip_grad", "job.clip"));
  t.push_back(number("peft.dim", "training.lora.rank"));
  t.push_back(number("peft.alpha", "training.lora.alpha"));
  t.push_back(text("--recipe", "job.recipe_name"));
  ignore(t, "has an effect, and no key says it: predictions leave it out",
         {"ddp.*", "comm_overlap.*", "optimizer.*", "mixed_precision.*", "train.*", "peft.*"});
  ignore(t, "how the script is run: no effect on a step", {"--*"});
  ignore_nemo(t);
  return out;
}

[[maybe_unused]] const bool entered_nemo = languages().add({"nemo", "places in a YAML of NeMo 1", {}, nemo()});
[[maybe_unused]] const bool entered_bridge =
    languages().add({"megatron_bridge", "places in a YAML of Megatron-Bridge", {}, bridge()});

}  // namespace

}  // namespace rehearse::translate
