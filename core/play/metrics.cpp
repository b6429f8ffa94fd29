#include "core/play/metrics.hpp"

#include <algorithm>

#include "core/config/settings/training.hpp"
#include "core/program/flops.hpp"

namespace rehearse {

DType arithmetic_of(Precision precision) {
  switch (precision) {
    case Precision::fp32: return DType::fp32;
    case Precision::tf32: return DType::tf32;
    case Precision::bf16:
    case Precision::bf16_mixed: return DType::bf16;
    case Precision::fp16_mixed: return DType::fp16;
    case Precision::fp8_mixed: return DType::fp8;
    case Precision::fp4_mixed: return DType::fp4;
  }
  return DType::fp32;
}

StepMetrics step_metrics(const Program& program, const Cluster& cluster, const TrainingSettings& training,
                         Seconds step_time) {
  FlopsPerSecond peak;
  for (const int device : program.device_of_rank) peak += cluster.gpu(device).peak(arithmetic_of(training.precision));
  const double gpus = std::max(1.0, static_cast<double>(program.device_of_rank.size()));
  const Flops at_peak = peak * step_time;
  StepMetrics out;
  out.step_time = step_time;
  out.samples_per_s = program.samples_per_step / step_time.value();
  out.tokens_per_s = program.tokens_per_step / step_time.value();
  out.tokens_per_s_per_gpu = out.tokens_per_s / gpus;
  out.model_flops_per_s_per_gpu = Flops{program.model_flops_per_step} / step_time / gpus;
  out.mfu = Flops{program.model_flops_per_step} / at_peak;
  out.causal_mfu = out.mfu;
  out.hfu = executed_matmul_flops(program) / at_peak;
  if (training.tokens > 0 && program.tokens_per_step > 0)
    out.run_time = step_time * (training.tokens / program.tokens_per_step);
  return out;
}

TimeCategory bound_by(const Breakdown& breakdown) {
  const auto most = std::max_element(breakdown.seconds.begin(), breakdown.seconds.end());
  return static_cast<TimeCategory>(most - breakdown.seconds.begin());
}

}  // namespace rehearse
