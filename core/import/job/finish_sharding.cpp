// What data-parallel ranks divide, what is offloaded, and what runs beside what.

#include <algorithm>

#include <fmt/format.h>

#include "core/import/job/draft.hpp"

namespace rehearse::job {

namespace {

void shard_fully(Draft& d, const std::string& reshard) {
  d.follow("strategy.fsdp.enabled", true);
  if (!reshard.empty()) d.follow("strategy.fsdp.reshard_after_forward", reshard);
}

/// Megatron's ways: its distributed optimizer, its own FSDP, PyTorch's.
void take_megatron(Draft& d) {
  if (d.flag("job.torch_fsdp")) return shard_fully(d, "");
  if (d.flag("job.megatron_fsdp")) {
    const std::string what = d.word("job.sharding", "optim_grads_params");
    d.follow("strategy.zero_stage", what == "optim_grads_params" ? 3
                                    : what == "optim_grads"      ? 2
                                    : what == "optim"            ? 1
                                                                 : 0);
  }
  if (d.has("job.distributed_optimizer")) d.follow("strategy.zero_stage", d.flag("job.distributed_optimizer") ? 1 : 0);
  const std::string optimizer = d.word("job.optim_name");
  if (!optimizer.empty()) d.follow("strategy.zero_stage", optimizer == "distributed_fused_adam" ? 1 : 0);
  if (d.flag("job.fsdp_on")) shard_fully(d, "");
  const std::int64_t instances = d.whole("job.optimizer_instances", 1), dp = d.whole("strategy.dp", 0);
  if (instances > 1 && dp > 0 && dp % instances == 0) {
    d.follow("strategy.dp_replicate", instances);
    d.follow("strategy.dp_shard", dp / instances);
  }
}

/// torchtitan: -1 is what is left. Ranks of a sequence shard parameters, too (ParallelDims.fsdp_enabled).
void take_torchtitan(Draft& d) {
  const std::int64_t dp = d.whole("strategy.dp", 0), replicate = d.whole("strategy.dp_replicate", 1);
  std::int64_t shard = d.whole("job.shard", -1);
  if (shard < 0 && dp > 0) shard = dp / std::max<std::int64_t>(1, replicate);
  if ((shard == 1 || shard == 0) && d.whole("strategy.cp", 1) == 1) return d.follow("strategy.fsdp.enabled", false);
  d.follow("strategy.fsdp.enabled", true);
  if (shard > 1) d.follow("strategy.dp_shard", shard);
}

/// Words of Hugging Face's Trainer and of accelerate; empty where nothing is sharded by FSDP.
std::string fsdp_word(const Draft& d) {
  const std::string kind = d.word("job.distributed_type");
  if (!kind.empty() && kind != "fsdp") return {};
  std::string word;
  for (const std::string& part : d.list("job.fsdp"))
    for (const char* known : {"full_shard", "shard_grad_op", "hybrid_shard_zero2", "hybrid_shard", "no_shard"})
      if (word.empty() && part.find(known) != std::string::npos) word = known;
  for (const char* name : {"job.fsdp_strategy", "job.fsdp_reshard"})
    if (word.empty() &&
        (d.has("job.fsdp") || d.has("job.fsdp_version") || kind == "fsdp" || d.has("job.fsdp_strategy")))
      word = d.word(name);
  if (word.empty() && (kind == "fsdp" || d.whole("job.shard", 1) > 1 || d.has("job.fsdp_version"))) word = "full_shard";
  return word;
}

void take_huggingface(Draft& d) {
  if (d.has("job.zero") && d.word("job.distributed_type", "deepspeed") == "deepspeed")
    return d.follow("strategy.zero_stage", d.whole("job.zero", 0));
  if (d.word("job.distributed_type") == "megatron")
    return d.follow("strategy.zero_stage", d.flag("job.distributed_optimizer") ? 1 : 0);
  const std::string word = fsdp_word(d);
  if (word.empty() || word == "no_shard") return;
  shard_fully(d, word.ends_with("grad_op") || word.ends_with("zero2") ? "never" : "");
  for (const std::string& part : d.list("job.fsdp"))
    if (part.find("offload") != std::string::npos) d.follow("job.cpu_offload", true);
  const std::int64_t dp = d.whole("strategy.dp", 0);
  if (const std::int64_t shard = d.whole("job.shard", 0); shard > 1) d.follow("strategy.dp_shard", shard);
  const std::int64_t each = d.whole("job.gpus_per_node", 8);
  if (word.starts_with("hybrid") && dp > each && dp % each == 0) {
    d.follow("strategy.dp_shard", each);
    d.follow("strategy.dp_replicate", dp / each);
  }
}

void take_deepspeed(Draft& d) {
  if (d.has("job.zero")) d.follow("strategy.zero_stage", d.whole("job.zero", 0));
  const std::int64_t shard = d.whole("job.shard", -1), dp = d.whole("strategy.dp", 0);
  if (shard > 1 && d.whole("strategy.zero_stage", 0) == 3 && dp > 0 && dp % shard == 0) {
    // MiCS: shards inside a group, replicas of groups.
    d.facts.erase("strategy.zero_stage");
    d.follow("strategy.fsdp.enabled", true);
    d.follow("strategy.dp_shard", shard);
    d.follow("strategy.dp_replicate", dp / shard);
  }
}

void take_offload(Draft& d) {
  const bool optimizer =
      d.flag("job.optimizer_offload") || d.word("job.offload_optimizer", "none") != "none" || d.flag("job.cpu_offload");
  const bool activations =
      d.flag("job.activation_offload") || d.flag("job.checkpoints_on_cpu") || d.whole("job.offloaded_layers", 0) > 0;
  if (optimizer || activations)
    d.follow("strategy.offload", optimizer && activations ? "all" : optimizer ? "optimizer" : "activations");
  if (const std::int64_t n = d.whole("job.offloaded_layers", 0); n > 0) d.follow("strategy.offload_layers", n);
  if (d.word("job.offload_parameters", "none") != "none" || d.flag("job.cpu_offload")) {
    if (optimizer)
      d.follow("strategy.offload_parameters", true);
    else
      d.notes.push_back("parameters are offloaded to the host without the optimizer: predictions keep them on the GPU");
  }
  if (d.word("job.offload_optimizer") == "nvme")
    d.notes.push_back("optimizer state goes to NVMe, and no key says it: host memory is taken");
}

void take_buckets(Draft& d) {
  const bool wide = d.word("training.gradient_dtype") == "fp32" || d.word("training.precision") == "fp32";
  const bool narrow = d.word("training.gradient_dtype") == "model";
  const double bytes = wide || !narrow ? 4 : 2;
  constexpr double kMebi = 1 << 20;
  if (d.has("job.bucket_parameters")) d.follow("strategy.bucket", d.real("job.bucket_parameters", 0) * bytes);
  if (d.has("job.bucket_elements")) d.follow("strategy.bucket", d.real("job.bucket_elements", 0) * (wide ? 4 : 2));
  if (d.has("job.bucket_mib")) d.follow("strategy.bucket", d.real("job.bucket_mib", 0) * kMebi);
  if (const Fact* f = d.find("strategy.bucket"); f != nullptr && f->value.is_number()) {
    const double value = f->value.get<double>();
    if (value < 1)
      d.facts.erase("strategy.bucket");
    else
      d.replace("strategy.bucket", fmt::format("{:.0f}B", value));
  }
}

}  // namespace

void finish_sharding(Draft& d, const std::string& framework) {
  if (framework == "torchtitan") {
    take_torchtitan(d);
  } else if (framework == "huggingface-trainer" || framework.starts_with("pytorch-fsdp")) {
    take_huggingface(d);
  } else if (framework == "deepspeed" || framework == "megatron-deepspeed" || framework == "gpt-neox" ||
             framework == "nanotron" || framework == "llm.c") {
    take_deepspeed(d);
    if (framework == "megatron-deepspeed" && !d.has("strategy.zero_stage")) take_megatron(d);
  } else if (framework == "llm-foundry") {
    const std::string word = d.word("job.fsdp_strategy", "full_shard");
    if (word != "no_shard") shard_fully(d, word.ends_with("grad_op") || word.ends_with("zero2") ? "never" : "");
  } else {
    take_megatron(d);
    if (framework == "megatron-bridge") d.follow("strategy.zero_stage", 1);
  }
  if (!d.flag("job.forward_prefetch", true)) d.follow("strategy.fsdp.prefetch_forward", 0);
  if (!d.flag("strategy.fsdp.enabled")) {
    for (const char* key : {"strategy.fsdp.reshard_after_forward", "strategy.fsdp.prefetch_forward",
                            "strategy.fsdp.prefetch_backward", "strategy.fsdp.limit_all_gathers"})
      d.facts.erase(key);
  }
  if (d.flag("strategy.fsdp.enabled")) d.facts.erase("strategy.zero_stage");
  take_offload(d);
  take_buckets(d);
  if (d.flag("job.pp_before_dp")) d.follow("strategy.placement", Json::array({"tp", "cp", "ep", "pp", "dp"}));
  const std::string dispatcher = d.word("job.dispatcher");
  if (dispatcher == "flex" || (dispatcher.empty() && d.has("job.flex_backend")) ||
      d.word("job.expert_backend") == "deepep")
    d.follow("strategy.dispatch", "hierarchical");
}

}  // namespace rehearse::job
