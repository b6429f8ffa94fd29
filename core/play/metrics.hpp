#pragma once
// The figures the field compares training runs by.

#include <optional>

#include "core/base/units.hpp"
#include "core/cluster/cluster.hpp"
#include "core/config/settings/choices.hpp"
#include "core/config/settings/forward.hpp"
#include "core/program/program.hpp"
#include "core/trace/trace.hpp"

namespace rehearse {

struct StepMetrics {
  Seconds step_time;
  double samples_per_s = 0;
  double tokens_per_s = 0;  ///< 0 where samples are not sequences.
  double tokens_per_s_per_gpu = 0;
  FlopsPerSecond model_flops_per_s_per_gpu;
  /// Model FLOPs utilisation; above 1 only by minimal filtering (kMinimalFilteringNote).
  double mfu = 0;
  double causal_mfu = 0;            ///< With causal attention at half; equal to mfu where there is none.
  double hfu = 0;                   ///< Hardware FLOPs utilisation; likewise.
  std::optional<Seconds> run_time;  ///< Of training.tokens, where given; without failures and evaluation.
};

/// How mfu and hfu are counted, in one line.
inline constexpr const char* kUtilisationDefinition =
    "MFU = model FLOPs (forward and backward matrix products, full-square attention, no recomputation) / (step time x "
    "dense peak of the "
    "training precision x GPUs); HFU counts the matrix products that are executed (Chowdhery et al. 2022; Korthikanti "
    "et al. 2022).";

/// Why either can pass 100 %: said where it does.
inline constexpr const char* kMinimalFilteringNote =
    "Convolutions count as direct sums; 3 x 3 kernels with minimal filtering get the same result from 2.25 times (2 x "
    "2 outputs) to 4 times (4 x 4) "
    "fewer multiplications (Lavin and Gray 2016), so that both figures can pass 100 %.";

/// The type in which matrix products run: what "peak" means.
[[nodiscard]] DType arithmetic_of(Precision precision);

/// mfu = F / (t sum of peaks), with F the model's FLOPs per step, t = `step_time` > 0 and the sum over the devices of
/// `cluster`. Throws Error (usage) where a device cannot compute in that precision.
[[nodiscard]] StepMetrics step_metrics(const Program& program, const Cluster& cluster, const TrainingSettings& training,
                                       Seconds step_time);

/// The largest category of the breakdown: what to work on first.
[[nodiscard]] TimeCategory bound_by(const Breakdown& breakdown);

}  // namespace rehearse
