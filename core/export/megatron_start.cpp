// What Megatron-LM refuses when it starts: NVIDIA/Megatron-LM @d98e8a64dd96 (August 2026).

#include <algorithm>

#include "core/export/megatron_words.hpp"
#include "core/export/start_rules.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse::exporting {

namespace {

bool has_experts(const ExportInput& in) { return in.workload.network.routing() != nullptr; }

bool recomputes(const ExportInput& in, std::string_view module) {
  const StrategySettings& s = plan(in);
  return s.recompute == Recompute::selective &&
         std::find(s.recompute_modules.begin(), s.recompute_modules.end(), module) != s.recompute_modules.end();
}

bool graphs(const ExportInput& in) { return in.scenario.kernels.cuda_graphs; }

constexpr int kAmpere = 80;  // Compute capability 8.0.

}  // namespace

bool grouped_experts(const ExportInput& in) { return has_experts(in) && least_capability(in) >= kAmpere; }

bool torch_fsdp_takes(const ExportInput& in) {
  const StrategySettings& s = plan(in);
  return s.pp == 1 && (s.ep == 1 || !has_experts(in)) && s.dp_replicate == 1 && !in.transformer->tied &&
         in.scenario.training.precision != Precision::fp16_mixed;
}

const std::vector<StartRule>& megatron_start() {
  static const std::vector<StartRule> rules{
      {[](const ExportInput& in) { return plan(in).fsdp.enabled && !torch_fsdp_takes(in); },
       "FSDP with pipeline or expert parallelism, replicas of shards, tied embeddings or fp16; strategy.zero_stage=3 "
       "is "
       "Megatron's own FSDP",
       "megatron/training/arguments.py, validate_args, use_torch_fsdp2"},
      {[](const ExportInput& in) { return has_experts(in) && plan(in).tp > 1 && !plan(in).sequence_parallel; },
       "experts beside tensor parallelism that is not sequence-parallel",
       "megatron/core/transformer/moe/moe_layer.py, MoELayer.forward"},
      {[](const ExportInput& in) { return has_experts(in) && in.transformer->experts.bias && plan(in).etp > 1; },
       "experts with biases that tensor parallelism splits (strategy.etp)",
       "megatron/core/transformer/transformer_config.py, __post_init__"},
      {[](const ExportInput& in) { return recomputes(in, "moe_act") && !grouped_experts(in); },
       "recomputation of experts' activations (moe_act) without experts that are one grouped product",
       "megatron/core/transformer/transformer_config.py, __post_init__"},
      {[](const ExportInput& in) { return recomputes(in, "mla_up_proj") && in.transformer->latent.kv_rank == 0; },
       "recomputation of latent projections (mla_up_proj) without latent attention",
       "megatron/core/transformer/transformer_config.py, __post_init__"},
      {[](const ExportInput& in) {
         return (recomputes(in, "moe_act") || recomputes(in, "layernorm")) &&
                in.scenario.training.precision == Precision::fp8_mixed &&
                in.scenario.training.fp8.recipe == Fp8Recipe::delayed;
       },
       "recomputation of norms or experts' activations with delayed fp8 scales",
       "megatron/core/transformer/transformer_config.py, __post_init__"},
      {[](const ExportInput& in) {
         return graphs(in) &&
                ((recomputes(in, "core_attn") && in.transformer->attention_dropout > 0) ||
                 ((recomputes(in, "mlp") || recomputes(in, "moe")) && in.transformer->hidden_dropout > 0));
       },
       "CUDA graphs of recomputed layers with dropout",
       "megatron/core/transformer/transformer_config.py, __post_init__"},
      {[](const ExportInput& in) {
         const Optimizer o = in.scenario.training.optimizer;
         return plan(in).offload == Offload::optimizer && o != Optimizer::adam && o != Optimizer::adamw;
       },
       "an optimizer on the host other than Adam", "megatron/core/optimizer/optimizer_config.py, __post_init__"},
      {[](const ExportInput& in) {
         return plan(in).offload == Offload::optimizer && in.scenario.training.fp8.parameters &&
                in.scenario.training.precision == Precision::fp8_mixed &&
                in.scenario.training.fp8.recipe != Fp8Recipe::delayed && plan(in).zero_stage > 0;
       },
       "an optimizer on the host with fp8 parameters, but for delayed scales",
       "megatron/training/arguments.py, validate_args, optimizer_cpu_offload"},
      {[](const ExportInput& in) { return in.transformer->parallel_residual; },
       "layers whose attention and MLP stand beside each other (parallel residual)",
       "megatron/core/transformer/transformer_layer.py, TransformerLayer.forward"},
  };
  return rules;
}

}  // namespace rehearse::exporting
