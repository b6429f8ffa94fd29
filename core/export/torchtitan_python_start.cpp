// What torchtitan refuses when it starts, from 0.3 on: pytorch/torchtitan @b5bcd76c66d0.

#include <algorithm>

#include "core/export/start_rules.hpp"
#include "core/export/torchtitan_models.hpp"

namespace rehearse::exporting {

namespace {

constexpr int kFp8Capability = 89, kMxCapability = 100;  // Compute capabilities 8.9 and 10.0.

bool in_fp8(const ExportInput& in, bool mx) {
  return in.scenario.training.precision == Precision::fp8_mixed &&
         (in.scenario.training.fp8.recipe == Fp8Recipe::mxfp8) == mx;
}

}  // namespace

const std::vector<StartRule>& torchtitan_python_start() {
  static const std::vector<StartRule> rules{
      {[](const ExportInput& in) {
         const std::int64_t divisor = (plan(in).sequence_parallel ? std::int64_t{plan(in).tp} : 1) *
                                      (plan(in).cp > 1 ? std::int64_t{2} * plan(in).cp : 1);
         return plan(in).microbatch * in.scenario.training.sequence_length % divisor != 0;
       },
       "tokens of a microbatch that ranks of tensors and 2 * cp do not divide", "trainer.py, Trainer.__init__"},
      {[](const ExportInput& in) { return plan(in).pp > 1 && in.transformer && in.transformer->tied; },
       "pipelines of models whose table and head are one weight",
       "models/common/decoder.py, Decoder.Config.update_from_config"},
      {[](const ExportInput& in) {
         return plan(in).tp > 1 && in.transformer &&
                (in.transformer->heads % plan(in).tp != 0 || in.transformer->kv_heads % plan(in).tp != 0);
       },
       "tensor parallelism that does not divide the heads",
       "models/common/decoder.py, Decoder.Config.update_from_config"},
      {[](const ExportInput& in) { return plan(in).pp > 1 && in.scenario.kernels.cuda_graphs; },
       "CUDA graphs with pipelines: kernels.cuda_graphs=false", "trainer.py, Trainer.Config._validate_cuda_graphs"},
      {[](const ExportInput& in) { return plan(in).ep > 1 && in.scenario.kernels.cuda_graphs; },
       "CUDA graphs with experts on ranks of their own: kernels.cuda_graphs=false",
       "trainer.py, Trainer.Config._validate_cuda_graphs"},
      {[](const ExportInput& in) { return plan(in).tp > 1 && plan(in).overlap.tp && !in.scenario.kernels.compile; },
       "overlap of tensor parallelism without torch.compile: kernels.compile=true",
       "config/configs.py, CompileConfig.__post_init__"},
      {[](const ExportInput& in) {
         const Fp8Recipe r = in.scenario.training.fp8.recipe;
         return in_fp8(in, false) && r != Fp8Recipe::rowwise;
       },
       "float8 by recipes other than rowwise and mxfp8", "components/quantization/float8.py, Float8LinearConverter"},
      {[](const ExportInput& in) { return in_fp8(in, false) && least_capability(in) < kFp8Capability; },
       "float8 on GPUs before compute capability 8.9", "components/quantization/float8.py, Float8LinearConverter"},
      {[](const ExportInput& in) { return in_fp8(in, true) && least_capability(in) < kMxCapability; },
       "mxfp8 on GPUs before compute capability 10.0", "components/quantization/mx.py, MXFP8LinearConverter"},
      {[](const ExportInput& in) {
         const std::int64_t microbatches =
             in.scenario.training.global_batch / (plan(in).microbatch * std::max(1, plan(in).dp));
         return plan(in).pp > 1 && plan(in).schedule == "1f1b" && microbatches < plan(in).pp;
       },
       "1F1B with fewer microbatches than stages", "torch: Schedule1F1B"},
      {[](const ExportInput& in) {
         const std::int64_t microbatches =
             in.scenario.training.global_batch / (plan(in).microbatch * std::max(1, plan(in).dp));
         return plan(in).pp > 1 && plan(in).schedule == "interleaved_1f1b" &&
                microbatches % std::max<std::int64_t>(1, microbatches / plan(in).pp) != 0;
       },
       "interleaved 1F1B whose microbatches do not divide into rounds of the stages", "torch: ScheduleInterleaved1F1B"},
  };
  return rules;
}

}  // namespace rehearse::exporting
