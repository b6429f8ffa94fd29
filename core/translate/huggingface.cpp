// Hugging Face's Trainer, and what is built on it: TRL, LLaMA-Factory, axolotl, FastChat. Facts from
// huggingface/transformers @5eddc12e (5.15) src/transformers/training_args.py, hiyouga/LLaMA-Factory @ff6d4d12eeb0
// src/llamafactory/hparams, axolotl-ai-cloud/axolotl @067b021c8b87 src/axolotl/utils/schemas.

#include "core/translate/accelerate.hpp"
#include "core/translate/language.hpp"

namespace rehearse::translate {

namespace {

const std::vector<std::pair<std::string, Json>> kOptimizers{{"adamw_torch", "adamw"},
                                                            {"adamw_torch_fused", "adamw"},
                                                            {"adamw_hf", "adamw"},
                                                            {"adamw", "adamw"},
                                                            {"adamw_apex_fused", "adamw"},
                                                            {"adafactor", "adafactor"},
                                                            {"sgd", "sgd"},
                                                            {"adamw_bnb_8bit", "adamw"},
                                                            {"adamw_8bit", "adamw"},
                                                            {"paged_adamw_32bit", "adamw"},
                                                            {"paged_adamw_8bit", "adamw"},
                                                            {"adamw_torch_8bit", "adamw"},
                                                            {"adamw_torch_4bit", "adamw"},
                                                            {"adam", "adam"},
                                                            {"ao_adamw_8bit", "adamw"}};

void add_batches_of_huggingface(std::vector<Term>& t) {
  for (const char* name : {"per_device_train_batch_size", "per_gpu_train_batch_size", "micro_batch_size",
                           "train_batch_size", "per_device_batch_size"})
    t.push_back(number(name, "strategy.microbatch"));
  t.push_back(number("gradient_accumulation_steps", "job.accumulation"));
  for (const char* name : {"max_seq_length", "max_length", "model_max_length", "sequence_len", "cutoff_len",
                           "max_seq_len", "block_size", "max_source_length", "sequence_length", "max_train_seq_length"})
    t.push_back(number(name, "training.sequence_length"));
  t.push_back(number("num_train_epochs", "job.epochs"));
  t.push_back(number("num_epochs", "job.epochs"));
  t.push_back(number("max_steps", "job.steps"));
  t.push_back(number("max_train_steps", "job.steps"));
  t.push_back(number("tensor_parallel_size", "strategy.tp"));
  t.push_back(number("context_parallel_size", "strategy.cp"));
  t.push_back(number("sequence_parallel_size", "job.ulysses"));
  t.push_back(number("dp_shard_size", "job.shard"));
  t.push_back(number("dp_replicate_size", "strategy.dp_replicate"));
  t.push_back(number("num_gpus", "job.gpus"));
  t.push_back(number("num_nodes", "job.nodes"));
}

void add_training_of_huggingface(std::vector<Term>& t) {
  t.push_back(toggle("bf16", "job.bf16"));
  t.push_back(toggle("fp16", "job.fp16"));
  t.push_back(toggle("tf32", "job.tf32"));
  t.push_back(toggle("fp8", "job.fp8_on"));
  for (const char* name : {"torch_dtype", "dtype", "model_dtype"}) {
    t.push_back(words(name, "job.weights_type",
                      {{"bfloat16", "bf16"},
                       {"float16", "fp16"},
                       {"float32", "fp32"},
                       {"auto", nullptr},
                       {"bf16", "bf16"},
                       {"fp16", "fp16"},
                       {"fp32", "fp32"},
                       {"torch.bfloat16", "bf16"},
                       {"torch.float16", "fp16"},
                       {"torch.float32", "fp32"}}));
  }
  t.push_back(words("optim", "job.optimizer", kOptimizers));
  t.push_back(words("optimizer", "job.optimizer", kOptimizers));
  t.push_back(number("learning_rate", "training.learning_rate"));
  t.push_back(number("weight_decay", "training.weight_decay"));
  t.push_back(number("max_grad_norm", "job.clip"));
  t.push_back(number("seed", "training.seed"));
  t.push_back(words("gradient_checkpointing", "strategy.recompute",
                    {{"true", "full"},
                     {"false", "none"},
                     {"1", "full"},
                     {"unsloth", "full"},
                     {"", "full"},
                     {"offload", "full"},
                     {"0", "none"}}));
  t.push_back(toggle("gradient_checkpointing_kwargs.use_reentrant", "framework.checkpoints", "megatron", "pytorch"));
  t.push_back(toggle("activation_offloading", "job.activation_offload"));
  t.push_back(number("ddp_bucket_cap_mb", "job.bucket_mib"));
  t.push_back(toggle("torch_compile", "kernels.compile"));
  t.push_back(words("attn_implementation", "kernels.attention",
                    {{"flash_attention_2", "flash"},
                     {"flash_attention_3", "flash"},
                     {"sdpa", "flash"},
                     {"eager", "unfused"},
                     {"flex_attention", "flash"},
                     {"kernels-community/flash-attn3", "flash"},
                     {"kernels-community/vllm-flash-attn3", "flash"}}));
  t.push_back(mark("flash_attention", "kernels.attention", "flash"));
  t.push_back(mark("use_flash_attn", "kernels.attention", "flash"));
  t.push_back(mark("use_flash_attention_2", "kernels.attention", "flash"));
  t.push_back(
      words("flash_attn", "kernels.attention",
            {{"fa2", "flash"}, {"sdpa", "flash"}, {"auto", nullptr}, {"disabled", "unfused"}, {"fa3", "flash"}}));
  t.push_back(mark("use_liger_kernel", "job.liger"));
  t.push_back(mark("use_liger", "job.liger"));
  t.push_back(mark("enable_liger_kernel", "job.liger"));
  t.push_back(mark("liger_fused_linear_cross_entropy", "job.liger_loss"));
  t.push_back(mark("cut_cross_entropy", "framework.linear_loss", "on_chip"));
}

void add_model_of_huggingface(std::vector<Term>& t) {
  for (const char* name :
       {"model_name_or_path", "base_model", "model_name", "model_id", "config_name", "tokenizer_model_or_path"})
    t.push_back(text(name, "model.name"));
  t.push_back(text("config_overrides", "model.overrides"));
  for (const char* name : {"lora_r", "lora_rank", "lora_dim"}) t.push_back(number(name, "training.lora.rank"));
  t.push_back(number("lora_alpha", "training.lora.alpha"));
  t.push_back(number("lora_dropout", "training.lora.dropout"));
  for (const char* name : {"lora_target", "lora_target_modules", "lora_target_linear", "lora_module_name"})
    t.push_back(list(name, "job.lora_targets"));
  t.push_back(toggle("use_peft", "job.lora"));
  t.push_back(toggle("lora", "job.lora"));
  t.push_back(words("adapter", "job.adapter", {{"lora", "lora"}, {"qlora", "qlora"}, {"none", nullptr}}));
  t.push_back(words("finetuning_type", "job.adapter",
                    {{"lora", "lora"}, {"full", nullptr}, {"freeze", "freeze"}, {"oft", "oft"}}));
  for (const char* name : {"load_in_4bit", "q_lora", "use_qlora"}) t.push_back(mark(name, "job.four_bit"));
  t.push_back(number("quantization_bit", "job.quantization_bit"));
  t.push_back(mark("load_in_8bit", "job.eight_bit"));
  t.push_back(list("unfrozen_parameters", "job.unfrozen"));
}

void add_sharding(std::vector<Term>& t) {
  t.push_back(text("deepspeed", "file.deepspeed"));
  t.push_back(text("deepspeed_config", "file.deepspeed"));
  t.push_back(text("deepspeed_config_file", "file.deepspeed"));
  t.push_back(number("zero_stage", "job.zero"));
  t.push_back(list("fsdp", "job.fsdp"));
  t.push_back(number("fsdp_version", "job.fsdp_version"));
  for (const std::string group : {"fsdp_config.", "fsdp_config.fsdp_", "fsdp_"}) add_fsdp(t, group);
}

void ignore_huggingface(std::vector<Term>& t) {
  ignore(t, "data and tokenizer: input is not waited for unless a scenario says so",
         {"data_*",
          "dataset*",
          "datasets*",
          "dataloader*",
          "tokenizer*",
          "preprocessing*",
          "train_file",
          "validation_file",
          "train_data*",
          "chat_template*",
          "packing*",
          "sample_packing*",
          "eval_sample_packing",
          "pad_to_*",
          "max_samples",
          "overwrite_cache",
          "template",
          "text_column",
          "test_*",
          "val_*",
          "split*",
          "use_fast_tokenizer",
          "remove_unused_columns",
          "group_by_length",
          "train_on_inputs",
          "special_tokens*",
          "shuffle*",
          "auto_insert_empty_system_msg",
          "lazy_preprocess",
          "type",
          "streaming",
          "columns*",
          "assistant_only_loss",
          "completion_only_loss",
          "eos_token",
          "local_dataset*",
          "response_template",
          "push_dataset_to_hub",
          "prompt_template*",
          "max_prompt_length",
          "mask_*",
          "add_bos",
          "use_slow_tokenizer",
          "max_train_samples",
          "max_eval_samples",
          "max_test_samples",
          "mix_*",
          "enable_thinking",
          "num_workers",
          "padding*",
          "interleave*",
          "cleaned*",
          "conv_template",
          "include_num_input_tokens_seen",
          "chat_template_kwargs*",
          "skip_prepare_dataset",
          "dataset_kwargs*",
          "roles*",
          "message_*",
          "ignore_*",
          "context_length",
          "download_mode"});
  ignore(t, "logging and profiling: no effect on a step that is not logged",
         {"log*",
          "report_to",
          "wandb*",
          "tensorboard*",
          "run_name",
          "disable_tqdm",
          "plot_loss",
          "mlflow*",
          "hub*",
          "push_to_hub*",
          "trackio*",
          "debug",
          "include_tokens_per_second",
          "include_effective_tokens_per_second",
          "with_tracking",
          "use_wandb",
          "exp_name",
          "swanlab*",
          "print_*",
          "tags",
          "comet*",
          "profile*",
          "with_*"});
  ignore(t, "checkpoints, evaluation and when the run ends: not part of a step",
         {"save*",
          "output*",
          "eval*",
          "do_*",
          "resume*",
          "load_best_model*",
          "overwrite_output_dir",
          "checkpoint*",
          "auto_resume*",
          "early_stopping*",
          "metric*",
          "greater_is_better",
          "per_device_eval_batch_size",
          "prediction*",
          "try_*",
          "keep_last_n_checkpoints",
          "evals_*",
          "bf16_full_eval",
          "strict",
          "predict*",
          "num_eval_*",
          "max_eval_*",
          "cleanup_*",
          "max_new_tokens",
          "inference*"});
  ignore(t, "schedule of the learning rate and constants of the update: a step takes the same time with any",
         {"lr_*",
          "warmup*",
          "adam_*",
          "cosine*",
          "cos_*",
          "optim_args*",
          "optim_target*",
          "beta*",
          "label_smoothing*",
          "neftune*",
          "loss_*",
          "loraplus*",
          "use_rslora",
          "use_dora",
          "reduce_loss",
          "num_warmup_steps",
          "lora_bias",
          "lora_modules_to_save*",
          "lora_fan_in_fan_out",
          "lora_on_cpu",
          "peft_*",
          "bnb_4bit*",
          "quantization_method",
          "double_quantization",
          "rope_scaling*",
          "fp16_opt_level",
          "additional_target",
          "modules_to_save",
          "lora_task_type",
          "disable_dropout",
          "dropout",
          "use_weighted_loss*",
          "task_type",
          "lora_weight_path",
          "lora_model_dir",
          "lr",
          "end_lr*",
          "pref_*",
          "dpo*",
          "desirable_*",
          "kl_*",
          "orpo*"});
  ignore(t, "how processes are started: no effect on a step",
         {"compute_environment",
          "machine_rank",
          "main_process_*",
          "main_training_function",
          "rdzv_backend",
          "same_network",
          "tpu*",
          "use_cpu",
          "downcast_bf16",
          "gpu_ids",
          "dynamo_*",
          "local_rank",
          "ddp_timeout*",
          "ddp_backend",
          "deepspeed_multinode_launcher",
          "deepspeed_config.deepspeed_multinode_launcher",
          "deepspeed_config.zero3_init_flag",
          "zero3_init_flag",
          "deepspeed_config.deepspeed_hostfile",
          "enable_cpu_affinity",
          "no_cuda",
          "trust_remote_code",
          "model_revision",
          "revision*",
          "token",
          "use_auth_token",
          "hf_*",
          "cache_dir",
          "stage",
          "rl",
          "strategy",
          "plugins*",
          "model_type",
          "is_*_derived*",
          "trainer",
          "model_class",
          "mpirun*",
          "fp8_config.*",
          "commands*",
          "debug_*",
          "ray_*",
          "report*",
          "seed_*",
          "allow_*",
          "low_cpu_mem_usage",
          "full_determinism",
          "version",
          "budget",
          "description",
          "tasks*",
          "gke*",
          "image*",
          "experimental*",
          "temp_dir",
          "launcher",
          "low_*",
          "use_ray",
          "number_of*",
          "is_*",
          "auto_find*",
          "env*",
          "framework",
          "sep*",
          "task*",
          "name",
          "priority",
          "preemptible"});
  ignore(t, "has an effect, and no key says it: predictions leave it out",
         {"ddp_*",
          "fsdp_*",
          "fsdp_config.*",
          "deepspeed_config.*",
          "accelerator_config.*",
          "gradient_checkpointing_kwargs*",
          "use_reentrant*",
          "torch_compile_*",
          "torch_empty_cache_steps",
          "use_cache",
          "use_unsloth*",
          "unsloth*",
          "average_tokens_across_devices",
          "parallelism_config*",
          "liger_*",
          "cut_cross_entropy_*",
          "flash_*",
          "xformers*",
          "fp8_*",
          "shift_attn",
          "use_kernels*",
          "heads_k_stride",
          "ring_*",
          "bf16_*",
          "fp16_*",
          "use_dynamic*",
          "tiled_mlp*",
          "offload*",
          "gpu_memory*",
          "use_mca",
          "gc_*",
          "upcast*",
          "use_badam",
          "use_galore",
          "pure_bf16",
          "lora_*",
          "context_parallel*",
          "use_v2*",
          "enable_fp8*",
          "use_*",
          "experts_*",
          "layer*",
          "megatron_lm_config.*"});
}

Language huggingface() {
  Language out{"Hugging Face Trainer", "huggingface-trainer", {}};
  add_batches_of_huggingface(out.terms);
  add_training_of_huggingface(out.terms);
  add_model_of_huggingface(out.terms);
  add_sharding(out.terms);
  add_accelerate(out.terms);
  ignore_huggingface(out.terms);
  out.fallbacks = {{"strategy.microbatch", 8}, {"job.accumulation", 1}};
  return out;
}

}  // namespace

const Language& huggingface_words() {
  static const Language language = huggingface();
  return language;
}

namespace {

[[maybe_unused]] const bool entered_huggingface = languages().add(
    {"huggingface", "arguments of Hugging Face's Trainer, and accelerate's file", {}, huggingface_words()});

}  // namespace

}  // namespace rehearse::translate
