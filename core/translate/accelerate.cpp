// accelerate's own file. Facts from huggingface/accelerate @16cb6eb80dd9 (1.15) src/accelerate/commands/config,
// commands/launch.py, parallelism_config.py and utils/dataclasses.py.

#include "core/translate/accelerate.hpp"

namespace rehearse::translate {

void add_fsdp(std::vector<Term>& t, const std::string& group) {
  const std::vector<std::pair<std::string, Json>> strategies{{"FULL_SHARD", "full_shard"},
                                                             {"SHARD_GRAD_OP", "shard_grad_op"},
                                                             {"NO_SHARD", "no_shard"},
                                                             {"HYBRID_SHARD", "hybrid_shard"},
                                                             {"HYBRID_SHARD_ZERO2", "hybrid_shard_zero2"},
                                                             {"_HYBRID_SHARD_ZERO2", "hybrid_shard_zero2"},
                                                             {"1", "full_shard"},
                                                             {"2", "shard_grad_op"},
                                                             {"3", "no_shard"},
                                                             {"4", "hybrid_shard"},
                                                             {"5", "hybrid_shard_zero2"},
                                                             {"true", "full_shard"},
                                                             {"false", "shard_grad_op"}};
  t.push_back(number(group + "version", "job.fsdp_version"));
  t.push_back(words(group + "sharding_strategy", "job.fsdp_strategy", strategies));
  t.push_back(words(group + "reshard_after_forward", "job.fsdp_reshard", strategies));
  t.push_back(toggle(group + "offload_params", "job.cpu_offload"));
  t.push_back(toggle(group + "cpu_offload", "job.cpu_offload").only_read());
  t.push_back(toggle(group + "activation_checkpointing", "job.fsdp_checkpoints"));
  t.push_back(toggle(group + "forward_prefetch", "job.forward_prefetch"));
  t.push_back(words(group + "backward_prefetch", "strategy.fsdp.prefetch_backward",
                    {{"BACKWARD_PRE", 1}, {"BACKWARD_POST", 0}, {"NO_PREFETCH", 0}, {"none", nullptr}}));
  t.push_back(toggle(group + "limit_all_gathers", "strategy.fsdp.limit_all_gathers"));
}

namespace {

/// What accelerate's Megatron-LM plugin takes (utils/dataclasses.py, MegatronLMPlugin).
void add_megatron_of_accelerate(std::vector<Term>& t) {
  const std::string m = "megatron_lm_config.megatron_lm_";
  t.push_back(number(m + "tp_degree", "strategy.tp"));
  t.push_back(number(m + "pp_degree", "strategy.pp"));
  t.push_back(number(m + "context_parallel_size", "strategy.cp"));
  t.push_back(number(m + "expert_model_parallel_size", "strategy.ep"));
  t.push_back(number(m + "expert_tensor_parallel_size", "strategy.etp"));
  t.push_back(number(m + "num_micro_batches", "job.accumulation"));
  t.push_back(toggle(m + "sequence_parallelism", "strategy.sequence_parallel"));
  t.push_back(toggle(m + "use_distributed_optimizer", "job.distributed_optimizer"));
  t.push_back(words(m + "recompute_granularity", "strategy.recompute", {{"full", "full"}, {"selective", "selective"}}));
  t.push_back(words(m + "recompute_method", "strategy.recompute_method", {{"uniform", "uniform"}, {"block", "block"}}));
  t.push_back(number(m + "recompute_num_layers", "strategy.recompute_layers"));
  t.push_back(number(m + "gradient_clipping", "job.clip"));
}

}  // namespace

void add_accelerate(std::vector<Term>& t) {
  t.push_back(words("distributed_type", "job.distributed_type",
                    {{"NO", "none"},
                     {"MULTI_GPU", "ddp"},
                     {"FSDP", "fsdp"},
                     {"DEEPSPEED", "deepspeed"},
                     {"MEGATRON_LM", "megatron"},
                     {"TP", "tp"},
                     {"MULTI_CPU", nullptr}}));
  t.push_back(number("num_processes", "job.gpus"));
  t.push_back(number("num_machines", "job.nodes"));
  t.push_back(words("mixed_precision", "job.mixed",
                    {{"no", nullptr}, {"fp16", "fp16"}, {"bf16", "bf16"}, {"fp8", "fp8"}, {"None", nullptr}}));
  const std::vector<std::pair<std::string, Json>> devices{{"none", "none"}, {"cpu", "cpu"}, {"nvme", "nvme"}};
  for (const std::string group : {"deepspeed_config.", ""}) {
    t.push_back(number(group + "zero_stage", "job.zero"));
    t.push_back(words(group + "offload_optimizer_device", "job.offload_optimizer", devices));
    t.push_back(words(group + "offload_param_device", "job.offload_parameters", devices));
    t.push_back(number(group + "gradient_clipping", "job.clip"));
  }
  t.push_back(number("deepspeed_config.gradient_accumulation_steps", "job.accumulation"));
  t.push_back(text("deepspeed_config.deepspeed_config_file", "file.deepspeed"));
  for (const std::string group :
       {"parallelism_config.parallelism_config_", "parallelism_config_", "parallelism_config."}) {
    t.push_back(number(group + "dp_replicate_size", "strategy.dp_replicate"));
    t.push_back(number(group + "dp_shard_size", "job.shard"));
    t.push_back(number(group + "tp_size", "strategy.tp"));
    t.push_back(number(group + "cp_size", "strategy.cp"));
    t.push_back(number(group + "sp_size", "job.ulysses"));
    t.push_back(
        words(group + "cp_comm_strategy", "job.cp_exchange", {{"allgather", "allgather"}, {"alltoall", "ring"}}));
  }
  t.push_back(words("fp8_config.fp8_format", "job.fp8", {{"E4M3", "e4m3"}, {"HYBRID", "hybrid"}}));
  t.push_back(words("fp8_config.backend", "job.fp8_backend", {{"TE", "te"}, {"MSAMP", "msamp"}, {"AO", "ao"}}));
  t.push_back(toggle("fp8_config.enable_fsdp_float8_all_gather", "training.fp8.parameters"));
  add_megatron_of_accelerate(t);
}

namespace {

/// accelerate's own file alone, as exports write it.
Language accelerate() {
  Language out{"Hugging Face accelerate", "huggingface-trainer", {}};
  add_fsdp(out.terms, "fsdp_config.fsdp_");
  add_accelerate(out.terms);
  return out;
}

}  // namespace

const Language& accelerate_words() {
  static const Language language = accelerate();
  return language;
}

}  // namespace rehearse::translate
