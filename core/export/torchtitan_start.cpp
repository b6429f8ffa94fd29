// What torchtitan refuses when it starts: pytorch/torchtitan @73a0e6979dd1 (v0.2.2), and the schedules of
// pytorch/pytorch @00722e648b74 torch/distributed/pipelining/schedules.py that it makes its pipelines of.

#include <algorithm>

#include "core/export/start_rules.hpp"
#include "core/export/torchtitan_models.hpp"

namespace rehearse::exporting {

namespace {

bool fp8(const ExportInput& in) { return in.scenario.training.precision == Precision::fp8_mixed; }

/// Ranks of a sequence shard parameters, too (ParallelDims.fsdp_enabled).
bool shards(const ExportInput& in) {
  const StrategySettings& s = plan(in);
  return s.cp > 1 || (s.fsdp.enabled && s.dp_shard > 1) || (s.zero_stage == 3 && s.dp > 1);
}

bool other_axes(const ExportInput& in) { return plan(in).tp > 1 || plan(in).pp > 1; }

std::int64_t microbatches(const ExportInput& in) {
  const StrategySettings& s = plan(in);
  return in.scenario.training.global_batch / (s.microbatch * std::max(1, s.dp));
}

std::optional<TitanModel> known(const ExportInput& in) {
  return in.transformer ? torchtitan_model(*in.transformer) : std::nullopt;
}

constexpr int kSm89 = 89, kSm100 = 100;  // Compute capabilities 8.9 and 10.0.

}  // namespace

const std::vector<StartRule>& torchtitan_start() {
  static const std::vector<StartRule> rules{
      {[](const ExportInput& in) {
         return in.scenario.training.sequence_length % (std::int64_t{2} * plan(in).cp * plan(in).tp) != 0;
       },
       "a sequence length that 2 * cp * tp does not divide", "distributed/parallel_dims.py, seq_len_divisor"},
      {[](const ExportInput& in) { return plan(in).dp > 1 && !shards(in) && other_axes(in); },
       "replicas of whole parameters beside tensor or pipeline parallelism: shard them, strategy.fsdp.enabled=true",
       "models/llama3/infra/parallelize.py, parallelize_llama"},
      {[](const ExportInput& in) {
         return in.scenario.training.precision != Precision::fp32 && !shards(in) && other_axes(in);
       },
       "mixed precision with tensor or pipeline parallelism where nothing is sharded: it would train in fp32",
       "distributed/utils.py, maybe_enable_amp"},
      {[](const ExportInput& in) {
         const Fp8Recipe r = in.scenario.training.fp8.recipe;
         return fp8(in) && r != Fp8Recipe::tensorwise && r != Fp8Recipe::rowwise && r != Fp8Recipe::mxfp8;
       },
       "float8 by delayed or blockwise scaling: its training.fp8.recipe are tensorwise, rowwise and mxfp8",
       "config/job_config.py, Float8Linear"},
      {[](const ExportInput& in) {
         return fp8(in) && in.scenario.training.fp8.recipe != Fp8Recipe::mxfp8 && least_capability(in) < kSm89;
       },
       "float8 on GPUs before compute capability 8.9", "components/quantization/float8.py, Float8LinearConverter"},
      {[](const ExportInput& in) {
         return fp8(in) && in.scenario.training.fp8.recipe == Fp8Recipe::mxfp8 && least_capability(in) < kSm100;
       },
       "mxfp8 on GPUs before compute capability 10.0", "components/quantization/mx.py, MXLinearConverter"},
      {[](const ExportInput& in) {
         return fp8(in) && in.scenario.training.fp8.recipe == Fp8Recipe::mxfp8 && in.scenario.kernels.compile &&
                plan(in).tp > 1;
       },
       "mxfp8 with tensor parallelism and torch.compile", "components/quantization/mx.py, MXLinearConverter"},
      {[](const ExportInput& in) {
         return fp8(in) && in.scenario.training.fp8.recipe == Fp8Recipe::rowwise && in.scenario.training.fp8.parameters;
       },
       "gathers of fp8 parameters (training.fp8.parameters) with rowwise scales",
       "components/quantization/float8.py, Float8LinearConverter"},
      {[](const ExportInput& in) { return plan(in).tp > 1 && plan(in).overlap.tp && !in.scenario.kernels.compile; },
       "overlap of tensor parallelism without torch.compile: kernels.compile=true",
       "distributed/tensor_parallel.py, maybe_enable_async_tp"},
      {[](const ExportInput& in) {
         return plan(in).pp > 1 && plan(in).schedule == "1f1b" && microbatches(in) < plan(in).pp;
       },
       "1F1B with fewer microbatches than stages", "torch: Schedule1F1B"},
      {[](const ExportInput& in) {
         return plan(in).pp > 1 && plan(in).schedule == "interleaved_1f1b" &&
                microbatches(in) % std::max<std::int64_t>(1, microbatches(in) / plan(in).pp) != 0;
       },
       "interleaved 1F1B whose microbatches do not divide into rounds of the stages", "torch: ScheduleInterleaved1F1B"},
      {[](const ExportInput& in) {
         const auto model = known(in);
         return plan(in).pp > 1 && model && !model->pipelines;
       },
       "pipelines of this model", "models/{qwen3,gpt_oss}/__init__.py: pipelining_fn=None"},
      {[](const ExportInput& in) {
         const auto model = known(in);
         return plan(in).cp > 1 && model && !model->splits_sequences;
       },
       "context parallelism of this model, whose attention is FlexAttention",
       "models/{deepseek_v3,gpt_oss}/model/args.py, update_from_config"},
  };
  return rules;
}

}  // namespace rehearse::exporting
