#include "core/strategy/lower_checks.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/model/encoder.hpp"
#include "core/strategy/bodies/optimizer_state.hpp"
#include "core/strategy/no_lowering.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

void refuse_unlowered(const Workload& w, const StrategySettings& s) {
  const auto refuse = [](const char* axis, int value) {
    if (value > 1)
      throw NoLowering(fmt::format("{}({}) has no lowering for this network", axis, value),
                       fmt::format("strategy.{}", axis),
                       fmt::format("set strategy.{} to 1; 'rehearse list strategies' shows what is available", axis));
  };
  if (w.network.routing() == nullptr) {
    refuse("ep", s.ep);
    refuse("etp", s.etp);
  }
  if (!w.network.sequences) {
    refuse("tp", s.tp);
    refuse("cp", s.cp);
  }
  if ((w.training.precision == Precision::fp8_mixed || w.training.precision == Precision::fp4_mixed) &&
      s.data_parallel != DataParallelism::replicas)
    throw Error(
        ErrorKind::usage,
        fmt::format("{} keeps copies of weights and their scales on every rank, which data_parallel '{}' does not",
                    name_of(w.training.precision), name_of(s.data_parallel)),
        "training.precision", "set strategy.data_parallel to replicas, or choose another precision");
  if (w.training.fp8.attention && s.cp > 1 && (s.context == ContextExchange::allgather || w.kernels.samples_first)) {
    throw Error(
        ErrorKind::usage,
        fmt::format("attention in fp8 over cp({}) ranks travels by ring or ulysses, as Megatron-LM has it", s.cp),
        "training.fp8.attention",
        "set strategy.context to ring or ulysses and framework.samples_first to false, or training.fp8.attention to "
        "false");
  }
  if (w.training.fp8.attention && w.kernels.attention != AttentionKernel::flash)
    throw Error(ErrorKind::usage, "attention in fp8 is one kernel", "training.fp8.attention",
                "set kernels.attention to flash, or training.fp8.attention to false");
}

bool freezes(const Network& network) {
  return std::any_of(network.blocks.begin(), network.blocks.end(), [](const BlockSpec& b) {
    return std::any_of(b.params.begin(), b.params.end(), [](const ParamSpec& p) { return p.frozen; });
  });
}

/// Frozen weights are copies on every replica, or slices of fully sharded units: what else divides weights or
/// gradients, or keeps them elsewhere, is lowered for trained ones.
void check_frozen(const Workload& w, const StrategySettings& s) {
  if (!freezes(w.network)) return;
  const auto refuse = [](const std::string& key, const std::string& what, const std::string& hint) {
    throw NoLowering(fmt::format("{} has no lowering for weights that are frozen (training.lora)", what), key, hint);
  };
  if (s.zero_stage > 1)
    refuse("strategy.zero_stage", fmt::format("zero_stage({})", s.zero_stage),
           "set strategy.zero_stage to 0 or 1, or strategy.fsdp.enabled to true");
  if (s.fsdp.enabled && w.training.fp8.parameters)
    refuse("training.fp8.parameters", "fully sharded data parallelism of parameters kept in fp8",
           "set training.fp8.parameters to false");
  if (s.data_parallel != DataParallelism::replicas)
    refuse("strategy.data_parallel", fmt::format("data_parallel '{}'", name_of(s.data_parallel)),
           "set strategy.data_parallel to replicas");
  if (s.offload == Offload::optimizer || s.offload == Offload::all)
    refuse("strategy.offload", fmt::format("offload '{}'", name_of(s.offload)),
           "set strategy.offload to none or activations");
}

void check_stored_weights(const Workload& w) {
  if (w.training.precision == Precision::fp4_mixed && w.training.fp8.parameters && !freezes(w.network))
    throw Error(ErrorKind::usage, "fp8.parameters in fp4_mixed has a lowering for frozen weights only",
                "training.fp8.parameters",
                "set training.fp8.parameters to false, or freeze the weights with training.lora.rank");
}

/// Scores that are kept whole have no window and no column for a sink.
void check_attention(const Workload& w) {
  if (w.kernels.attention != AttentionKernel::unfused) return;
  for (const BlockSpec& block : w.network.blocks)
    for (const OpSpec& op : block.ops)
      if (op.kind == OpKind::attention && (op.attention_window > 0 || !op.params.empty()))
        throw NoLowering(fmt::format("unfused attention has no lowering for {} of {}",
                                     op.attention_window > 0 ? "the window" : "the sinks", w.network.name),
                         "kernels.attention", "set kernels.attention to flash");
}

/// A host that waits for every kernel launches nothing beside it.
void check_launch_blocking(const Workload& w, const StrategySettings& s) {
  if (!w.kernels.launch_blocking) return;
  const auto refuse = [](const std::string& key, const std::string& what, const std::string& hint) {
    throw Error(ErrorKind::usage, fmt::format("launch_blocking lets nothing run beside a kernel, {} does", what), key,
                hint);
  };
  const auto off = [&](bool on, const char* key) {
    if (on)
      refuse(fmt::format("strategy.overlap.{}", key), fmt::format("overlap.{}", key),
             fmt::format("set strategy.overlap.{} to false, or framework.launch_blocking to false", key));
  };
  const bool replicas = s.dp * s.cp > 1;
  off(s.overlap.tp && s.tp > 1, "tp");
  off(s.overlap.tp_backward && s.tp > 1, "tp_backward");
  off(s.overlap.pp && s.pp > 1, "pp");
  off(s.overlap.grad_reduce && replicas, "grad_reduce");
  off(s.overlap.param_gather && s.zero_stage == 1 && replicas, "param_gather");
  if (s.fsdp.enabled || s.zero_stage > 1)
    refuse(
        "framework.launch_blocking", "what gathers parameters or reduces gradients ahead",
        "set strategy.fsdp.enabled to false and strategy.zero_stage to 0 or 1, or framework.launch_blocking to false");
  if (s.cp > 1)
    refuse("framework.launch_blocking", "context parallelism",
           "set strategy.cp to 1, or framework.launch_blocking to false");
  if (s.offload != Offload::none)
    refuse("framework.launch_blocking", "offload",
           "set strategy.offload to none, or framework.launch_blocking to false");
  if (s.schedule == "dualpipe" || s.schedule == "paired_1f1b")
    refuse("framework.launch_blocking", fmt::format("schedule {}", s.schedule),
           "set strategy.schedule to 1f1b, or framework.launch_blocking to false");
}

/// Which slice of a sequence a masked word lies in, only the data says.
void check_predicted_positions(const Workload& w, const StrategySettings& s) {
  if (s.cp > 1 && predicts_some(w.network, w.training))
    throw NoLowering(
        fmt::format("predicted_positions({}) has no lowering over cp({}) ranks", predicted_positions(w.training), s.cp),
        "training.predicted_positions", "set strategy.cp to 1, or training.predicted_positions to 0");
}

/// A recurrence goes from token to token: what a rank begins with is what the rank before ends with.
void check_recurrence(const Workload& w, const StrategySettings& s) {
  if (s.cp < 2) return;
  for (const BlockSpec& block : w.network.blocks) {
    for (const OpSpec& op : block.ops)
      if (op.kind == OpKind::state_space)
        throw Error(
            ErrorKind::usage,
            fmt::format("the state space layers of {} have no lowering over cp({}) ranks", w.network.name, s.cp),
            "strategy.cp", "set strategy.cp to 1; sequences can be split by sequence_parallel with tp");
  }
}

/// A mean over ranks may be taken again after more was added to it on each of them; a sum may not: of parts of a
/// sequence or an image, of experts whose copies are fewer or more than replicas.
void check_repeated_sums(const Workload& w, const StrategySettings& s) {
  const bool slices = (s.fsdp.enabled && s.dp_shard * s.cp > 1) || (s.zero_stage >= 2 && s.dp * s.cp > 1);
  if (s.grad_sync != GradientSync::every || slices || microbatches_of(w, s) == 1) return;
  std::string summed;
  if (s.cp > 1)
    summed = fmt::format("cp({})", s.cp);
  else if (s.tile_h * s.tile_w > 1)
    summed = fmt::format("tile_h({}) * tile_w({})", s.tile_h, s.tile_w);
  else if (w.network.routing() != nullptr && s.tp != s.ep * s.etp)
    summed = "experts";
  if (!summed.empty()) {
    throw Error(ErrorKind::usage,
                fmt::format("grad_sync 'every' reduces accumulated gradients again after each microbatch: those of {} "
                            "are sums, not means, and would count several times",
                            summed),
                "strategy.grad_sync",
                "set strategy.grad_sync to last, or strategy.zero_stage to 2, which reduces each microbatch's apart");
  }
}

/// Settings of a network that there is not.
void check_discriminator(const Workload& w) {
  if (!w.network.adversarial() && w.training.discriminator != DiscriminatorSettings{})
    throw Error(ErrorKind::usage, fmt::format("{} has no discriminator", w.network.name), "training.discriminator",
                "leave training.discriminator out");
}

void check_sequence(const Workload& w) {
  const auto limit = w.network.max_sequence_length;
  const auto s = w.training.sequence_length;
  if (!w.network.sequences && s > 0)
    throw Error(ErrorKind::usage, fmt::format("{} takes no sequences", w.network.name), "training.sequence_length",
                "leave training.sequence_length out");
  if (limit > 0 && s > limit)
    throw Error(ErrorKind::usage, fmt::format("sequence_length({}) is longer than the model's {} positions", s, limit),
                "training.sequence_length", fmt::format("choose at most {}", limit));
}

}  // namespace

StrategySettings completed(StrategySettings s) {
  if (s.dp == 1) s.dp = s.dp_replicate * s.dp_shard;
  if (s.fsdp.enabled && s.dp_shard == 1 && s.dp_replicate == 1) s.dp_shard = s.dp;
  if (s.dp_replicate == 1) s.dp_replicate = s.dp / std::max(1, s.dp_shard);
  if (s.dp != s.dp_replicate * s.dp_shard)
    throw Error(ErrorKind::usage,
                fmt::format("dp_replicate({}) * dp_shard({}) = {} != dp({})", s.dp_replicate, s.dp_shard,
                            s.dp_replicate * s.dp_shard, s.dp),
                "strategy.dp", "set strategy.dp to their product, or leave dp_replicate out");
  return s;
}

void check_axes(const StrategySettings& s, int ranks) {
  const std::int64_t product = std::int64_t{s.dp} * s.cp * s.tp * s.pp * s.tile_h * s.tile_w;
  if (product == ranks) return;
  std::string equation = fmt::format("dp({})", s.dp);
  if (s.cp > 1) equation += fmt::format(" * cp({})", s.cp);
  equation += fmt::format(" * tp({}) * pp({})", s.tp, s.pp);
  if (s.tile_h > 1) equation += fmt::format(" * tile_h({})", s.tile_h);
  if (s.tile_w > 1) equation += fmt::format(" * tile_w({})", s.tile_w);
  throw Error(ErrorKind::usage, fmt::format("{} = {} != {} GPUs", equation, product, ranks), "strategy",
              "the axes multiply to the number of GPUs: change one of them or cluster.nodes");
}

int microbatches_of(const Workload& w, const StrategySettings& s) {
  const std::int64_t per_pass = s.microbatch * s.dp;
  if (w.training.global_batch % per_pass != 0)
    throw Error(ErrorKind::usage,
                fmt::format("global_batch({}) % (microbatch({}) * dp({})) = {} != 0", w.training.global_batch,
                            s.microbatch, s.dp, w.training.global_batch % per_pass),
                "training.global_batch", fmt::format("choose a global batch that is a multiple of {}", per_pass));
  return static_cast<int>(w.training.global_batch / per_pass);
}

void check_workload(const Workload& workload, const StrategySettings& settings) {
  refuse_unlowered(workload, settings);
  check_sequence(workload);
  check_attention(workload);
  check_launch_blocking(workload, settings);
  check_frozen(workload, settings);
  check_stored_weights(workload);
  check_optimizer_state(workload, settings);
  check_recurrence(workload, settings);
  check_predicted_positions(workload, settings);
  check_repeated_sums(workload, settings);
  check_discriminator(workload);
}

void check_machines(const Workload& workload, const StrategySettings& strategy, const Cluster& cluster) {
  if (strategy.data_parallel == DataParallelism::funnel && cluster.node_count() > 1)
    throw Error(ErrorKind::usage,
                fmt::format("one process drives the GPUs of one machine, not of {}", cluster.node_count()),
                "strategy.data_parallel", "set cluster.nodes to 1, or strategy.data_parallel to replicas");
  if (workload.training.precision == Precision::fp4_mixed)
    for (const Cluster::Part& part : cluster.parts())
      if (part.gpu->compute_capability < 100)
        throw Error(ErrorKind::usage, fmt::format("{} has no tensor cores for fp4", part.gpu->name),
                    "training.precision", "fp4_mixed needs Blackwell; set training.precision to fp8_mixed");
  if (workload.training.precision == Precision::fp8_mixed && workload.training.fp8.recipe == Fp8Recipe::mxfp8)
    for (const Cluster::Part& part : cluster.parts())
      if (part.gpu->compute_capability < 100)
        throw Error(ErrorKind::usage, fmt::format("{} has no tensor cores that take scales of blocks", part.gpu->name),
                    "training.fp8.recipe",
                    "mxfp8 needs Blackwell; set training.fp8.recipe to blockwise, delayed or tensorwise");
}

}  // namespace rehearse
