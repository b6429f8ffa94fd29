#pragma once
// Jobs drawn over every registered schedule and the combinations of strategies, on small networks.

#include <fmt/format.h>

#include "core/schedule/schedule.hpp"
#include "tests/support/property.hpp"
#include "tests/unit/program/lowered.hpp"

namespace rehearse::test {

template <class T>
T any_of(std::vector<T> values) { return *rc::gen::elementOf(std::move(values)); }

inline bool coin() { return *rc::gen::arbitrary<bool>(); }

inline Network any_network() {
  static const std::vector<Network> kNetworks{tiny_gpt(), tiny_gpt(4, 0.0), tiny_llama(), tiny_neox()};
  return any_of(kNetworks);
}

inline bool runs(const Schedule& schedule, const PipelineShape& shape) {
  try {
    schedule.check(shape);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// A registered schedule with a shape that it accepts.
inline void draw_pipeline(Job& job) {
  struct Choice { std::string schedule; PipelineShape shape; };
  static const std::vector<Choice> kChoices = [] {
    std::vector<Choice> all;
    for (const auto& entry : schedules().entries())
      for (const int p : {1, 2, 4})
        for (const int v : {1, 2, 4})
          for (const int m : {1, 2, 3, 4, 8})
            if (4 % (p * v) == 0 && runs(*entry.value, {p, v, m})) all.push_back({entry.name, {p, v, m}});
    return all;
  }();
  const Choice c = any_of(kChoices);
  job.strategy.schedule = c.schedule;
  job.strategy.pp = c.shape.stages;
  job.strategy.virtual_stages = c.shape.virtual_stages;
  job.microbatches = c.shape.microbatches;
}

inline Job any_job() {
  Job job(any_network());
  draw_pipeline(job);
  StrategySettings& s = job.strategy;
  s.tp = any_of<int>({1, 2, 4});
  s.dp_replicate = any_of<int>({1, 2});
  s.dp_shard = any_of<int>({1, 2});
  s.dp = s.dp_replicate * s.dp_shard;
  s.microbatch = any_of<int>({1, 2});
  s.sequence_parallel = coin();
  s.fsdp.enabled = coin() && coin();
  s.zero_stage = s.fsdp.enabled ? 0 : any_of<int>({0, 1, 2, 3});
  s.fsdp.reshard_after_forward = any_of<Reshard>({Reshard::automatic, Reshard::always, Reshard::never});
  s.fsdp.reshard_after_backward = any_of<Reshard>({Reshard::automatic, Reshard::always, Reshard::never});
  s.fsdp.prefetch_forward = any_of<int>({0, 1, 3});
  s.fsdp.prefetch_backward = any_of<int>({0, 1, 3});
  s.fsdp.limit_all_gathers = coin() || coin();
  s.zero3.prefetch_bucket = any_of<double>({0, 1e5, 5e7});
  s.zero3.persistence_threshold = any_of<double>({0, 500, 1e5});
  s.grad_sync = any_of<GradientSync>({GradientSync::automatic, GradientSync::last, GradientSync::every});
  s.offload = any_of<Offload>({Offload::none, Offload::none, Offload::optimizer});
  if (s.tp * s.pp == 1 && s.dp > 1 && coin()) {
    s.data_parallel = any_of<DataParallelism>({DataParallelism::funnel, DataParallelism::parameter_server});
    s.servers = any_of<int>({1, s.dp});
    s.dp_replicate = s.dp;
    s.dp_shard = 1;
    s.fsdp.enabled = false;
    s.zero_stage = 0;
    s.offload = Offload::none;
  }
  s.first_bucket = Bytes{any_of<double>({0, 1e3})};
  s.recompute = any_of<Recompute>({Recompute::none, Recompute::selective, Recompute::full});
  s.scatter_gather = coin();
  s.bucket = Bytes{any_of<double>({1e3, 2e4, 25e6})};
  s.overlap.grad_reduce = coin();
  s.overlap.param_gather = coin();
  s.overlap.pp = coin();
  if (coin()) s.placement = {"tp", "pp", "dp"};
  job.workload.kernels.attention = any_of<AttentionKernel>({AttentionKernel::unfused, AttentionKernel::flash});
  job.workload.kernels.fused_norm = coin();
  job.workload.kernels.fused_cross_entropy = coin();
  job.workload.training.precision = any_of<Precision>({Precision::fp32, Precision::bf16, Precision::fp16_mixed, Precision::bf16_mixed});
  job.workload.training.optimizer = any_of<Optimizer>({Optimizer::sgd, Optimizer::adamw});
  job.workload.training.clip_gradients = coin();
  return job;
}

inline std::string describe(const Job& job) {
  const StrategySettings& s = job.strategy;
  return fmt::format("{} {} pp={} v={} m={} tp={} dp={}*{} sp={} zero={} fsdp={} {}/{} prefetch={},{} limit={} zero3={:g},{:g} sync={} {} servers={} offload={} recompute={} attention={} fused={},{} scatter={} overlap={},{},{} bucket={}",
                     job.workload.network.name, s.schedule, s.pp, s.virtual_stages, job.microbatches, s.tp, s.dp_replicate, s.dp_shard,
                     s.sequence_parallel, s.zero_stage, s.fsdp.enabled, name_of(s.fsdp.reshard_after_forward), name_of(s.fsdp.reshard_after_backward),
                     s.fsdp.prefetch_forward, s.fsdp.prefetch_backward, s.fsdp.limit_all_gathers, s.zero3.prefetch_bucket, s.zero3.persistence_threshold, name_of(s.grad_sync), name_of(s.data_parallel), s.servers, name_of(s.offload), name_of(s.recompute), name_of(job.workload.kernels.attention),
                     job.workload.kernels.fused_norm, job.workload.kernels.fused_cross_entropy, s.scatter_gather, s.overlap.grad_reduce,
                     s.overlap.param_gather, s.overlap.pp, s.bucket.value());
}

/// The Program of a drawn job; combinations that a strategy refuses are drawn again.
inline Program any_program(Job& job) {
  job = any_job();
  RC_LOG(describe(job));
  try {
    return job.lower();
  } catch (const Error&) {
    RC_DISCARD("refused");
  }
}

}  // namespace rehearse::test
