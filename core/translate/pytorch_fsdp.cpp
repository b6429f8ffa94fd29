// A file of ours, fsdp.json, that says what PyTorch's own wrappers are called with, by the names of their arguments:
// pytorch/pytorch @08187d9edd (2.14) torch/distributed/fsdp/fully_sharded_data_parallel.py (FullyShardedDataParallel),
// fsdp/_fully_shard/_fully_shard.py and _fsdp_api.py (fully_shard, MixedPrecisionPolicy).

#include "core/translate/language.hpp"

namespace rehearse::translate {

namespace {

using Words = std::vector<std::pair<std::string, Json>>;

const Words kGradients{{"float32", "fp32"}, {"bfloat16", "model"}, {"float16", "model"}};

Language pytorch_fsdp() {
  Language out{"PyTorch FSDP", "pytorch-fsdp2", {}};
  std::vector<Term>& t = out.terms;
  const Words weights{{"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", nullptr}};
  t.push_back(number("fsdp_version", "job.fsdp_version"));
  for (const std::string policy : {"fully_shard.mp_policy.", "FullyShardedDataParallel.mixed_precision."}) {
    t.push_back(words(policy + "param_dtype", "job.mixed", weights));
    t.push_back(words(policy + "reduce_dtype", "job.gradient_type", kGradients));
  }
  t.push_back(words("fully_shard.reshard_after_forward", "job.fsdp_reshard",
                    {{"true", "full_shard"}, {"false", "shard_grad_op"}}));
  t.push_back(words("FullyShardedDataParallel.sharding_strategy", "job.fsdp_strategy",
                    {{"FULL_SHARD", "full_shard"},
                     {"SHARD_GRAD_OP", "shard_grad_op"},
                     {"NO_SHARD", "no_shard"},
                     {"HYBRID_SHARD", "hybrid_shard"},
                     {"_HYBRID_SHARD_ZERO2", "hybrid_shard_zero2"}}));
  t.push_back(words("FullyShardedDataParallel.backward_prefetch", "strategy.fsdp.prefetch_backward",
                    {{"BACKWARD_PRE", 1}, {"BACKWARD_POST", 0}, {"none", 0}}));
  t.push_back(toggle("FullyShardedDataParallel.limit_all_gathers", "strategy.fsdp.limit_all_gathers"));
  t.push_back(toggle("fully_shard.cpu_offload", "job.cpu_offload"));
  t.push_back(toggle("FullyShardedDataParallel.cpu_offload", "job.cpu_offload"));
  t.push_back(number("mesh.dp_replicate", "strategy.dp_replicate"));
  t.push_back(number("mesh.dp_shard", "job.shard"));
  t.push_back(number("batch.per_rank", "strategy.microbatch"));
  t.push_back(number("batch.global", "job.global_batch"));
  t.push_back(number("batch.sequence_length", "training.sequence_length"));
  t.push_back(words("optimizer.name", "job.optimizer", {{"AdamW", "adamw"}, {"Adam", "adam"}, {"SGD", "sgd"}}));
  t.push_back(number("optimizer.lr", "training.learning_rate"));
  t.push_back(number("optimizer.weight_decay", "training.weight_decay"));
  t.push_back(number("max_norm", "job.clip"));
  t.push_back(number("steps", "job.steps"));
  t.push_back(number("seed", "training.seed"));
  t.push_back(toggle("checkpoint_blocks", "job.fsdp_checkpoints"));
  t.push_back(toggle("compile_blocks", "kernels.compile"));
  return out;
}

}  // namespace

const Language& pytorch_fsdp_words() {
  static const Language language = pytorch_fsdp();
  return language;
}

namespace {

[[maybe_unused]] const bool entered_pytorch_fsdp = languages().add(
    {"pytorch_fsdp", "arguments of PyTorch's own FSDP, as exports write them", {}, pytorch_fsdp_words()});

}  // namespace

}  // namespace rehearse::translate
