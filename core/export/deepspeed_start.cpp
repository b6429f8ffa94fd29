// What DeepSpeed refuses when it starts: deepspeedai/DeepSpeed @edaa7221267243 (0.19.6).

#include "core/export/start_rules.hpp"

namespace rehearse::exporting {

namespace {

constexpr int kVolta = 70;  // Compute capability 7.0.

}  // namespace

const std::vector<StartRule>& deepspeed_start() {
  static const std::vector<StartRule> rules{
      {[](const ExportInput& in) { return plan(in).cp > 1 && plan(in).context != ContextExchange::ulysses; },
       "context parallelism other than Ulysses (strategy.context=ulysses): its batch would count the ranks of a "
       "sequence as replicas",
       "runtime/config.py, DeepSpeedConfig._batch_assertion"},
      {[](const ExportInput& in) { return plan(in).cp > 1 && (plan(in).tp > 1 || plan(in).pp > 1); },
       "Ulysses beside tensor or pipeline parallelism: its mesh is of replicas and sequences alone",
       "__init__.py, initialize"},
      {[](const ExportInput& in) { return plan(in).pp > 1 && (plan(in).zero_stage >= 2 || plan(in).fsdp.enabled); },
       "ZeRO 2 and 3 with pipelines", "runtime/pipe/engine.py, PipelineEngine"},
      {[](const ExportInput& in) {
         const Precision p = in.scenario.training.precision;
         return p != Precision::fp32 && p != Precision::fp16_mixed && p != Precision::bf16_mixed;
       },
       "this training.precision: a ds_config.json has fp32, fp16 and bf16 beside fp32 master weights",
       "runtime/config.py, DeepSpeedConfig"},
      {[](const ExportInput& in) {
         const int capability = least_capability(in);
         return in.scenario.training.precision == Precision::fp16_mixed && capability > 0 && capability < kVolta;
       },
       "fp16 on GPUs before compute capability 7.0", "accelerator/cuda_accelerator.py, is_fp16_supported"},
  };
  return rules;
}

}  // namespace rehearse::exporting
