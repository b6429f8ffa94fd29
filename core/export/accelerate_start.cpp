// What accelerate refuses when it starts, or takes for something else: huggingface/accelerate @16cb6eb80dd9 (1.15).

#include "core/export/start_rules.hpp"

namespace rehearse::exporting {

const std::vector<StartRule>& accelerate_start() {
  static const std::vector<StartRule> rules{
      {[](const ExportInput& in) { return plan(in).pp > 1; },
       "pipelines: Accelerator has none of its own, and its plugin for Megatron-LM recomputes every layer; --to "
       "megatron "
       "writes them",
       "accelerator.py, Accelerator.pipeline_parallel_rank; utils/dataclasses.py, MegatronLMPlugin.__post_init__"},
      {[](const ExportInput& in) { return plan(in).ep > 1; },
       "experts on ranks of their own: its axes are replicas, shards, tensors and sequences",
       "parallelism_config.py, ParallelismConfig"},
      {[](const ExportInput& in) { return plan(in).dp > 1 && !uses_fsdp(in) && !uses_zero(in) && plan(in).tp > 1; },
       "replicas of whole parameters beside tensor parallelism: shard them, strategy.fsdp.enabled=true",
       "parallelism_config.py, ParallelismConfig.__post_init__"},
      {[](const ExportInput& in) { return uses_zero(in) && plan(in).tp > 1; },
       "tensor parallelism with ZeRO: deepspeed_config has no word for it; --to deepspeed writes a file that has",
       "accelerator.py, Accelerator._prepare_deepspeed"},
      {[](const ExportInput& in) {
         return plan(in).cp > 1 && plan(in).context != ContextExchange::ulysses && !uses_fsdp(in);
       },
       "ranks of a sequence that exchange keys and values without FSDP",
       "accelerator.py, Accelerator.maybe_context_parallel"},
      {[](const ExportInput& in) {
         return plan(in).cp > 1 && plan(in).context == ContextExchange::ulysses && !uses_zero(in);
       },
       "Ulysses without ZeRO", "parallelism_config.py, sp_backend"},
      {[](const ExportInput& in) {
         const Precision p = in.scenario.training.precision;
         const Fp8Recipe r = in.scenario.training.fp8.recipe;
         return p == Precision::fp4_mixed ||
                (p == Precision::fp8_mixed && r != Fp8Recipe::delayed && r != Fp8Recipe::tensorwise);
       },
       "fp4, or fp8 by recipes other than Transformer Engine's delayed and torchao's tensorwise scales",
       "utils/dataclasses.py, TERecipeKwargs and AORecipeKwargs"},
  };
  return rules;
}

}  // namespace rehearse::exporting
