#pragma once
// Jobs drawn over every registered schedule and the combinations of strategies, on small networks.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/index.hpp"
#include "core/config/setting_key.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/property.hpp"
#include "tests/unit/program/lowered.hpp"

namespace rehearse::test {

template <class T>
T any_of(std::vector<T> values) {
  return *rc::gen::elementOf(std::move(values));
}

inline bool coin() { return *rc::gen::arbitrary<bool>(); }

inline Network any_network() {
  static const std::vector<Network> kNetworks{tiny_gpt(),
                                              tiny_gpt(4, 0.0),
                                              tiny_llama(),
                                              tiny_neox(),
                                              shipped("tiny_bert"),
                                              shipped("tiny_mixtral"),
                                              shipped("tiny_deepseek"),
                                              shipped("tiny_nemotron_h")};
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
  struct Choice {
    std::string schedule;
    PipelineShape shape;
  };
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

/// Sizes of the expert view that divide a stage, some of whose ranks may be refused, and how tokens go to experts.
inline void draw_experts(Job& job) {
  if (job.workload.network.routing() == nullptr) return;
  StrategySettings& s = job.strategy;
  s.sequence_parallel = s.tp > 1;
  s.etp = any_of<int>({1, 1, 2});
  s.ep = any_of<int>({1, 2, 4, 8});
  if (s.dp * s.tp % (s.ep * s.etp) != 0) s.etp = s.ep = 1;
  if (s.ep >= 4 && coin()) {
    s.dispatch = Dispatch::hierarchical;
    s.dispatch_node = s.ep / 2;
  }
  ExpertSettings& e = job.workload.training.experts;
  e.imbalance = any_of<Imbalance>({Imbalance::none, Imbalance::multinomial, Imbalance::zipf});
  e.capacity_factor = any_of<double>({0, 0, 1, 1.5});
  e.pad_to_capacity = e.capacity_factor > 0 && coin();
  job.workload.training.statistics = any_of<StatisticsScope>({StatisticsScope::local, StatisticsScope::global});
}

/// Small networks over images: a chain, skip connections, residual stages, a branch with a loss of its own.
inline Network any_image_network() {
  static const std::vector<Network> kNetworks{
      ModelLibrary({}).load(
          R"({"schema": "rehearse/network/v1", "input": {"channels": 3, "height": 32, "width": 48}, "classes": 10,
          "blocks": [
        {"name": "stem", "layers": [{"op": "conv2d", "out": 8, "kernel": 3, "padding": 1, "then": ["batch_norm",
        "relu"]}]},
        {"name": "body", "repeat": 3, "layers": [{"op": "conv2d", "name": "a", "out": 8, "kernel": 3, "padding": 1,
        "then": ["batch_norm", "relu"]},
                                                 {"op": "conv2d", "name": "b", "out": 8, "kernel": 3, "padding": 1,
                                                 "then": ["batch_norm"]},
                                                 {"op": "add", "from": ["input", "b.batch_norm"], "then": ["relu"]}]},
        {"name": "down", "layers": [{"op": "gated_conv", "out": 16, "kernel": 5, "stride": 2, "padding": 2},
        {"op": "max_pool", "kernel": 3, "stride": 2, "padding": 1}]},
        {"name": "head", "layers": [{"op": "global_pool"}, {"op": "dropout"}, {"op": "linear"},
        {"op": "softmax_loss"}]}]})"),
      ModelLibrary({}).load(
          R"({"schema": "rehearse/network/v1", "input": {"channels": 1, "height": 32, "width": 32}, "classes": 2,
          "blocks": [
        {"name": "down1", "layers": [{"op": "conv2d", "name": "c", "out": 4, "kernel": 3, "same": true, "bias": true,
        "then": ["relu"]}, {"op": "max_pool", "kernel": 2}]},
        {"name": "down2", "layers": [{"op": "conv2d", "name": "c", "out": 8, "kernel": 3, "same": true, "then":
        ["relu"]}, {"op": "max_pool", "kernel": 2}]},
        {"name": "bottom", "layers": [{"op": "conv2d", "out": 16, "kernel": 3, "same": true, "then": ["relu"]}]},
        {"name": "up2", "layers": [{"op": "upsample"}, {"op": "concat", "from": ["down2.c.relu", "upsample"]},
        {"op": "conv2d", "out": 8, "kernel": 3, "same": true, "then": ["relu"]}]},
        {"name": "up1", "layers": [{"op": "transposed_conv", "out": 4, "kernel": 2, "stride": 2}, {"op": "add",
        "from": ["down1.c.relu", "transposed_conv"]}]},
        {"name": "head", "layers": [{"op": "conv2d", "out": 2, "kernel": 1}, {"op": "softmax_loss"}]}]})"),
      ModelLibrary({}).load(
          R"({"model_type": "resnet", "depths": [1, 2], "hidden_sizes": [16, 32], "embedding_size": 8,
          "image_size": 64, "num_labels": 7})"),
      ModelLibrary({}).load(
          R"({"model_type": "resnet", "depths": [2, 1, 1], "hidden_sizes": [8, 16, 24], "embedding_size": 8,
          "layer_type": "basic", "image_size": 96})")};
  return any_of(kNetworks);
}

/// Jobs over images: replicas, stages and tiles.
inline Job any_image_job() {
  Job job(any_image_network(), 0);
  draw_pipeline(job);
  StrategySettings& s = job.strategy;
  s.dp = s.dp_replicate = any_of<int>({1, 2, 3});
  s.tile_h = any_of<int>({1, 2, 3});
  s.tile_w = any_of<int>({1, 2, 4});
  s.microbatch = any_of<int>({1, 2});
  s.recompute = any_of<Recompute>({Recompute::none, Recompute::full});
  s.bucket = Bytes{any_of<double>({1e3, 25e6})};
  s.overlap.grad_reduce = coin();
  s.overlap.pp = coin();
  if (coin()) s.placement = {"tile_h", "tile_w", "pp", "dp"};
  job.workload.training.precision = any_of<Precision>({Precision::fp32, Precision::fp16_mixed});
  job.workload.training.optimizer = any_of<Optimizer>({Optimizer::sgd, Optimizer::adamw});
  job.workload.training.statistics = any_of<StatisticsScope>({StatisticsScope::local, StatisticsScope::global});
  return job;
}

/// How context-parallel ranks meet: any way where there are heads for all.
inline void draw_context(Job& job) {
  StrategySettings& s = job.strategy;
  job.workload.kernels.attention = AttentionKernel::flash;
  bool enough = true;
  for (const BlockSpec& block : job.workload.network.blocks)
    for (const TensorSpec& t : block.tensors)
      for (const Dim& d : t.shape)
        enough = enough && ((d.tag != DimTag::heads && d.tag != DimTag::kv_heads) || d.size % (s.cp * s.tp) == 0);
  s.context = any_of<ContextExchange>(
      {ContextExchange::ring, ContextExchange::allgather, enough ? ContextExchange::ulysses : ContextExchange::ring});
}

/// Values of the keys that other files declare (setting_key.hpp), one in four: those that a search tries, or any
/// choice.
inline void draw_declared(Job& job) {
  for (const auto& entry : declared_keys().entries()) {
    std::vector<SettingValue> values = entry.value.options.searched;
    for (const std::string& choice : entry.value.options.choices) values.emplace_back(choice);
    if (std::holds_alternative<bool>(entry.value.fallback)) values = {false, true};
    if (values.empty() || coin() || coin()) continue;
    const SettingValue value = any_of(values);
    if (entry.name.starts_with("strategy.")) job.strategy.declared.set(entry.name, value);
    if (entry.name.starts_with("training.")) job.workload.training.declared.set(entry.name, value);
    if (entry.name.starts_with("kernels.") || entry.name.starts_with("framework."))
      job.workload.kernels.declared.set(entry.name, value);
  }
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
  s.overlap.tp = s.sequence_parallel && coin();
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
  s.cp = any_of<int>({1, 1, 1, 2, 4});
  if (s.tp * s.pp * s.cp == 1 && s.dp > 1 && coin()) {
    s.data_parallel = any_of<DataParallelism>({DataParallelism::funnel, DataParallelism::parameter_server});
    s.servers = any_of<int>({1, s.dp});
    s.dp_replicate = s.dp;
    s.dp_shard = 1;
    s.fsdp.enabled = false;
    s.zero_stage = 0;
    s.offload = Offload::none;
  }
  const int chunks = s.pp * s.virtual_stages, layers = job.workload.network.layers();
  if (layers >= chunks && coin() && coin()) {
    s.layers_per_stage.assign(static_cast<std::size_t>(chunks), 1);
    nth(s.layers_per_stage, *rc::gen::inRange(0, chunks)) += layers - chunks;
  }
  if (s.dp > 1 && job.microbatches > 1 && coin() && coin()) {
    s.batch_per_replica.assign(static_cast<std::size_t>(s.dp), job.microbatches * s.microbatch);
    s.batch_per_replica.front() += s.microbatch;
    s.batch_per_replica.back() -= s.microbatch;
  }
  s.first_bucket = Bytes{any_of<double>({0, 1e3})};
  s.recompute = any_of<Recompute>({Recompute::none, Recompute::selective, Recompute::full});
  s.scatter_gather = coin();
  if (s.pp > 1 && s.zero_stage < 2 && !s.fsdp.enabled && coin() && coin())
    s.deferred_head_gradients = any_of<int>({1, 3, 99});
  s.bucket = Bytes{any_of<double>({1e3, 2e4, 25e6})};
  s.overlap.grad_reduce = coin();
  s.overlap.param_gather = coin();
  s.overlap.pp = coin();
  if (coin()) s.placement = {"tp", "pp", "dp"};
  job.workload.kernels.attention = any_of<AttentionKernel>({AttentionKernel::unfused, AttentionKernel::flash});
  if (s.cp > 1) draw_context(job);
  job.workload.kernels.fused_norm = coin();
  job.workload.kernels.fused_cross_entropy = coin();
  job.workload.kernels.fused_gradient_accumulation = coin();
  job.workload.kernels.gather_per_product = coin() && coin();
  job.workload.training.precision =
      any_of<Precision>({Precision::fp32, Precision::bf16, Precision::fp16_mixed, Precision::bf16_mixed});
  job.workload.training.optimizer = any_of<Optimizer>({Optimizer::sgd, Optimizer::adamw});
  job.workload.training.clip_gradients = coin();
  draw_experts(job);
  draw_declared(job);
  return job;
}

/// Declared keys that differ from their defaults, and their values.
inline std::string describe_declared(const Job& job) {
  std::string out;
  for (const auto& entry : declared_keys().entries())
    for (const DeclaredSettings* of :
         {&job.strategy.declared, &job.workload.training.declared, &job.workload.kernels.declared})
      if (const SettingValue* value = of->find(entry.name); value != nullptr && *value != entry.value.fallback)
        std::visit([&](const auto& v) { out += fmt::format(" {}={}", entry.name, v); }, *value);
  return out;
}

inline std::string describe(const Job& job) {
  const StrategySettings& s = job.strategy;
  return fmt::format(
      "{} ep={} etp={} capacity={}{} imbalance={} {} {} pp={} v={} m={} tp={}{} cp={} {} dp={}*{} sp={} zero={} "
      "fsdp={} {}/{} prefetch={},{} limit={} zero3={:g},{:g} sync={} {} servers={} offload={} recompute={} "
      "attention={} fused={},{},{} scatter={} overlap={},{},{} bucket={} layers={} batch={}{}",
      job.workload.network.name, s.ep, s.etp, job.workload.training.experts.capacity_factor,
      job.workload.training.experts.pad_to_capacity ? " padded" : "", name_of(job.workload.training.experts.imbalance),
      name_of(s.dispatch), s.schedule, s.pp, s.virtual_stages, job.microbatches, s.tp, s.overlap.tp ? " in pieces" : "",
      s.cp, name_of(s.context), s.dp_replicate, s.dp_shard, s.sequence_parallel, s.zero_stage, s.fsdp.enabled,
      name_of(s.fsdp.reshard_after_forward), name_of(s.fsdp.reshard_after_backward), s.fsdp.prefetch_forward,
      s.fsdp.prefetch_backward, s.fsdp.limit_all_gathers, s.zero3.prefetch_bucket, s.zero3.persistence_threshold,
      name_of(s.grad_sync), name_of(s.data_parallel), s.servers, name_of(s.offload), name_of(s.recompute),
      name_of(job.workload.kernels.attention), job.workload.kernels.fused_norm,
      job.workload.kernels.fused_cross_entropy, job.workload.kernels.fused_gradient_accumulation, s.scatter_gather,
      s.overlap.grad_reduce, s.overlap.param_gather, s.overlap.pp, s.bucket.value(), fmt::join(s.layers_per_stage, "+"),
      fmt::join(s.batch_per_replica, "+"), describe_declared(job));
}

/// The Program of a drawn job over images; combinations that a strategy refuses are drawn again.
inline Program any_image_program(Job& job) {
  job = any_image_job();
  RC_LOG(fmt::format("{} tiles {}x{} statistics {}", describe(job), job.strategy.tile_h, job.strategy.tile_w,
                     name_of(job.workload.training.statistics)));
  try {
    return job.lower();
  } catch (const Error&) {
    RC_DISCARD("refused");
  }
}

/// Two networks trained against each other, on replicas.
inline Program any_adversarial_program(Job& job) {
  job = Job(tiny_gan(), 0);
  StrategySettings& s = job.strategy;
  s.dp_replicate = any_of<int>({1, 2, 3});
  s.dp_shard = any_of<int>({1, 2});
  s.dp = s.dp_replicate * s.dp_shard;
  s.zero_stage = any_of<int>({0, 1});
  s.microbatch = any_of<int>({1, 2});
  s.bucket = Bytes{any_of<double>({1e2, 1e3, 25e6})};
  s.overlap.grad_reduce = coin();
  s.overlap.param_gather = coin();
  job.microbatches = any_of<int>({1, 2, 3});
  TrainingSettings& t = job.workload.training;
  t.precision = any_of<Precision>({Precision::fp32, Precision::fp16_mixed, Precision::bf16_mixed});
  t.optimizer = any_of<Optimizer>({Optimizer::sgd, Optimizer::adam, Optimizer::lamb});
  t.discriminator.optimizer = any_of<OwnOptimizer>({OwnOptimizer::same, OwnOptimizer::sgd, OwnOptimizer::adafactor});
  t.statistics = any_of<StatisticsScope>({StatisticsScope::local, StatisticsScope::global});
  t.clip_gradients = coin();
  RC_LOG(fmt::format("{} discriminator by {}, statistics {}", describe(job), name_of(t.discriminator.optimizer),
                     name_of(t.statistics)));
  return job.lower();
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
