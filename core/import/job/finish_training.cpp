// Optimizer, adapters, kernels and the length of the run.

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "core/import/job/draft.hpp"

namespace rehearse::job {

namespace {

void take_optimizer(Draft& d, const std::string& framework) {
  // NeMo's fused Adam decays weights apart from the gradient (apex's adam_w_mode).
  if (d.has("job.optim_name")) d.follow("training.optimizer", "adamw");
  if (!d.has("job.optimizer")) return;
  std::string name = d.word("job.optimizer");
  const bool deepspeed = framework == "deepspeed" || framework == "megatron-deepspeed" || framework == "gpt-neox";
  // Megatron's and DeepSpeed's Adam decay weights apart from the gradient unless told not to.
  if (name == "adam" && framework != "huggingface-trainer" && (!deepspeed || d.flag("job.adam_w_mode", true)))
    name = "adamw";
  d.follow("training.optimizer", name);
}

/// Products that adapters stand beside, by the names of Hugging Face's modules.
void take_adapters(Draft& d) {
  const bool on = d.flag("job.lora", true) &&
                  (!d.has("job.adapter") || d.word("job.adapter") == "lora" || d.word("job.adapter") == "qlora");
  if (d.has("job.adapter") && on) d.follow("training.lora.rank", 8);
  if (d.word("job.peft") == "lora") {
    d.follow("training.lora.rank", d.whole("job.lora_rank", 32));
    d.follow("training.lora.alpha", d.real("job.lora_alpha", 32));
    d.follow("training.lora.dropout", d.real("job.lora_dropout", 0));
  }
  if (!on || d.whole("training.lora.rank", 0) == 0) {
    for (const char* key : {"training.lora.rank", "training.lora.alpha", "training.lora.dropout"}) d.facts.erase(key);
    return;
  }
  std::vector<std::string> names;
  for (const char* list : {"job.lora_targets", "job.lora_modules"}) {
    for (std::string word : d.list(list)) {
      std::replace(word.begin(), word.end(), ',', ' ');
      for (std::size_t at = 0; at < word.size();) {
        const std::size_t end = std::min(word.find(' ', at), word.size());
        if (end > at) names.push_back(word.substr(at, end - at));
        at = end + 1;
      }
    }
  }
  const auto any = [&](std::initializer_list<const char*> of) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& n) {
      return n == "all" || n == "true" || n == "all-linear" || n == "decoder.layers." ||
             std::any_of(of.begin(), of.end(), [&](const char* o) { return n.ends_with(o); });
    });
  };
  Json targets = Json::array();
  if (any({"q_proj", "k_proj", "v_proj", "qkv_proj", "linear_qkv", "attention_qkv", "c_attn", "query_key_value",
           "attention", "qkv"}))
    targets.push_back("qkv");
  if (any({"o_proj", "linear_proj", "attention_dense", "out_proj", "attention"})) targets.push_back("proj");
  if (any({"gate_proj", "up_proj", "gate_up_proj", "linear_fc1", "mlp_fc1", "mlp", "c_fc"})) targets.push_back("fc1");
  if (any({"down_proj", "linear_fc2", "mlp_fc2", "mlp", "c_proj"})) targets.push_back("fc2");
  if (!targets.empty()) d.follow("training.lora.targets", targets);
  if (d.word("job.adapter") == "qlora" || d.flag("job.four_bit") || d.whole("job.quantization_bit", 16) == 4)
    d.notes.push_back(
        "frozen weights are stored in 4 bits, and no key says it: predictions keep them in the working type");
}

void take_attention(Draft& d, const std::string& framework) {
  const std::string backend = d.word("job.attention_backend");
  if (backend == "unfused" || backend == "local") d.replace("kernels.attention", "unfused");
  if (backend == "flash" || backend == "fused") d.replace("kernels.attention", "flash");
  if (backend == "fused") d.follow("kernels.flash", "cudnn");
  if (d.flag("job.te_unfused") && !d.flag("job.te_flash", true) && !d.flag("job.te_fused", true))
    d.follow("kernels.attention", "unfused");
  else if (d.has("job.te_flash") && !d.flag("job.te_flash") && d.flag("job.te_fused"))
    d.follow("kernels.flash", "cudnn");
  if (d.flag("job.flash_triton")) {
    d.follow("kernels.attention", "flash");
    d.follow("kernels.flash", "flash_triton");
  }
  for (const std::string& word : d.list("job.attention_config"))
    if (framework == "gpt-neox")
      d.follow("kernels.attention", word.find("flash") != std::string::npos ? "flash" : "unfused");
}

void take_kernels(Draft& d, const std::string& framework) {
  take_attention(d, framework);
  // Megatron's native fusion keeps the softmax; Transformer Engine's does not.
  if (d.has("job.loss_fusion"))
    d.follow("kernels.fused_cross_entropy", d.flag("job.loss_fusion") && d.word("job.loss_fusion_kind") != "native");
  // Without effect where each microbatch's gradients go into shards: PyTorch's FSDP in Megatron asks for it.
  if (d.flag("job.torch_fsdp")) d.facts.erase("framework.fused_gradient_accumulation");
  if (d.flag("job.liger")) {
    for (const char* key : {"framework.fused_norm", "framework.fused_activation"}) d.follow(key, true);
  }
  if (d.flag("job.liger") || d.flag("job.liger_loss")) {
    d.follow("kernels.fused_cross_entropy", true);
    d.follow("framework.linear_loss", "chunks");
  }
  const std::vector<std::string> compiled = d.list("job.compiled");
  if (d.flag("kernels.compile") && !compiled.empty() &&
      std::find(compiled.begin(), compiled.end(), "model") == compiled.end()) {
    d.replace("kernels.compile", false);
    d.notes.push_back("only the loss is compiled, and no key says it");
  }
  if (d.flag("job.defer_head_gradients")) {
    const std::int64_t per_step = d.whole("strategy.dp", 1) * d.whole("strategy.microbatch", 1);
    const std::int64_t all = per_step > 0 ? d.whole("training.global_batch", 0) / per_step : 0,
                       limit = d.whole("job.deferral_limit", 0);
    if (const std::int64_t n = limit > 0 ? limit : all; n > 0) d.follow("framework.deferred_head_gradients", n);
  }
  if (d.word("job.ddp") == "torch") d.follow("strategy.overlap.grad_reduce", true);
}

void take_length(Draft& d) {
  const double length = d.real("training.sequence_length", 0), batch = d.real("training.global_batch", 0);
  if (d.has("job.tokens")) d.follow("training.tokens", d.real("job.tokens", 0));
  if (d.has("job.samples") && length > 0) d.follow("training.tokens", d.real("job.samples", 0) * length);
  if (d.real("job.steps", 0) > 0 && length * batch > 0)
    d.follow("training.tokens", d.real("job.steps", 0) * length * batch);
  if (d.real("training.tokens", 0) <= 0) d.facts.erase("training.tokens");
}

}  // namespace

void finish_training(Draft& d, const std::string& framework) {
  take_optimizer(d, framework);
  take_adapters(d);
  take_kernels(d, framework);
  take_length(d);
  if (d.has("job.clip")) d.follow("training.clip_gradients", d.real("job.clip", 1) > 0);
  if (d.flag("job.frozen"))
    d.ask("which weights are trained (some are frozen)",
          "no key says it: translate a job that trains all, or adapters alone");
  if (d.has("job.unfrozen")) d.notes.push_back("only some layers are trained, and no key says it: all are");
  if (d.word("job.fp8_backend") == "ao") d.follow("training.fp8.recipe", "tensorwise");
}

}  // namespace rehearse::job
