#pragma once
// The settings of a scenario after parsing and validation: what lower() and the cost model read. The schema
// (names, types, ranges, defaults, help) is one table in schema.cpp; these structs hold its values.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/units/units.hpp"

namespace rehearse {

enum class Precision { fp32, tf32, bf16, fp16_mixed, bf16_mixed, fp8_mixed };
enum class Recompute { none, selective, full };
enum class AttentionKernel { unfused, flash };
enum class GradientDtype { fp32, model };
enum class Optimizer { sgd, adam, adamw };
/// Over which ranks batch statistics, expert capacity and the auxiliary loss are taken.
enum class StatisticsScope {
  local,  ///< Each data-parallel rank by itself.
  global  ///< All data-parallel ranks together, at the cost of a small all-reduce.
};
/// What is kept in host memory and copied over PCIe when it is needed.
enum class Offload { none, optimizer, activations, all };
/// How unevenly tokens choose experts.
enum class Imbalance {
  none,         ///< Every expert gets the same.
  multinomial,  ///< Chosen independently and uniformly: the expected spread of counts.
  zipf          ///< The j-th most popular expert is chosen in proportion to 1 / j^exponent.
};
/// How rows reach the ranks of their experts.
enum class Dispatch {
  all_to_all,   ///< One exchange over the expert-parallel group: a row for each expert chosen.
  hierarchical  ///< Each node gets one copy of a token, which is handed on inside it.
};

/// Where data-parallel replicas find parameters and leave gradients.
enum class DataParallelism {
  replicas,         ///< Each keeps a copy; gradients are reduced between them (DistributedDataParallel).
  funnel,           ///< GPU 0 keeps them: one process loads, scatters, broadcasts, gathers and updates there (torch.nn.DataParallel).
  parameter_server  ///< Dealt to server ranks: every step each replica pulls them from there and pushes gradients back.
};

/// When the gradients of accumulated microbatches go over the wire.
enum class GradientSync {
  automatic,  ///< What the strategy's framework does: every microbatch where gradients are kept as shards, else last.
  last,       ///< Once per step, after the last microbatch (`no_sync` before it).
  every       ///< After every microbatch.
};
/// Whether gathered parameters are dropped after a pass.
enum class Reshard { automatic, always, never };

/// The text forms, in the order of the enumerators. Defined for every enum of this file.
template <class Enum>
[[nodiscard]] const std::vector<std::string>& names_of();
template <> const std::vector<std::string>& names_of<Precision>();
template <> const std::vector<std::string>& names_of<Recompute>();
template <> const std::vector<std::string>& names_of<AttentionKernel>();
template <> const std::vector<std::string>& names_of<GradientDtype>();
template <> const std::vector<std::string>& names_of<Optimizer>();
template <> const std::vector<std::string>& names_of<StatisticsScope>();
template <> const std::vector<std::string>& names_of<Offload>();
template <> const std::vector<std::string>& names_of<DataParallelism>();
template <> const std::vector<std::string>& names_of<GradientSync>();
template <> const std::vector<std::string>& names_of<Reshard>();
template <> const std::vector<std::string>& names_of<Imbalance>();
template <> const std::vector<std::string>& names_of<Dispatch>();

[[nodiscard]] inline const std::string& name_of(Precision v) { return names_of<Precision>()[static_cast<std::size_t>(v)]; }
[[nodiscard]] inline const std::string& name_of(Recompute v) { return names_of<Recompute>()[static_cast<std::size_t>(v)]; }
[[nodiscard]] inline const std::string& name_of(AttentionKernel v) { return names_of<AttentionKernel>()[static_cast<std::size_t>(v)]; }
[[nodiscard]] inline const std::string& name_of(GradientDtype v) { return names_of<GradientDtype>()[static_cast<std::size_t>(v)]; }
[[nodiscard]] inline const std::string& name_of(Optimizer v) { return names_of<Optimizer>()[static_cast<std::size_t>(v)]; }
[[nodiscard]] inline const std::string& name_of(StatisticsScope v) { return names_of<StatisticsScope>()[static_cast<std::size_t>(v)]; }
[[nodiscard]] inline const std::string& name_of(Offload v) { return names_of<Offload>()[static_cast<std::size_t>(v)]; }
[[nodiscard]] inline const std::string& name_of(DataParallelism v) { return names_of<DataParallelism>()[static_cast<std::size_t>(v)]; }
[[nodiscard]] inline const std::string& name_of(GradientSync v) { return names_of<GradientSync>()[static_cast<std::size_t>(v)]; }
[[nodiscard]] inline const std::string& name_of(Reshard v) { return names_of<Reshard>()[static_cast<std::size_t>(v)]; }
[[nodiscard]] inline const std::string& name_of(Imbalance v) { return names_of<Imbalance>()[static_cast<std::size_t>(v)]; }
[[nodiscard]] inline const std::string& name_of(Dispatch v) { return names_of<Dispatch>()[static_cast<std::size_t>(v)]; }

/// How many tokens an expert takes, and how many choose it.
struct ExpertSettings {
  double capacity_factor = 0;       ///< Rows that an expert takes of one rank's tokens, over the mean; 0: all of them (dropless).
  bool pad_to_capacity = false;     ///< Buffers are filled up to the capacity, so that all sizes are known beforehand.
  Imbalance imbalance = Imbalance::none;
  double zipf_exponent = 0.5;       ///< For Imbalance::zipf, at least 0.

  bool operator==(const ExpertSettings&) const = default;
};

struct TrainingSettings {
  std::int64_t global_batch = 0;     ///< Sequences per optimizer step.
  std::int64_t sequence_length = 0;  ///< Tokens per sequence; 0 takes the model's maximum, and stays 0 where samples are no sequences.
  std::int64_t image_height = 0;     ///< Pixels; 0 takes the model's own.
  std::int64_t image_width = 0;      ///< Pixels; 0 takes the model's own.
  Precision precision = Precision::bf16_mixed;
  GradientDtype gradient_dtype = GradientDtype::fp32;
  Optimizer optimizer = Optimizer::adam;
  double learning_rate = 3e-4;       ///< Constant over the run.
  double weight_decay = 0;           ///< Of weights with two dimensions or more; adamw subtracts it from them, the others add it to the gradient.
  bool clip_gradients = true;        ///< Global gradient norm: an all-reduce over every rank before the update.
  double tokens = 0;                 ///< Tokens of the whole run; 0 leaves the run's length out of the answer.
  std::uint64_t seed = 1;
  StatisticsScope statistics = StatisticsScope::local;
  ExpertSettings experts;

  bool operator==(const TrainingSettings&) const = default;
};

struct OverlapSettings {
  bool grad_reduce = true;    ///< Gradient buckets are reduced while backward still runs.
  bool param_gather = false;  ///< ZeRO: gathered parameters arrive during the next forward.
  bool tp = false;            ///< Tensor-parallel collectives are hidden under split GEMMs in forward too.
  bool pp = true;             ///< Pipeline sends run beside compute; otherwise a stage computes on only when its message has left.

  bool operator==(const OverlapSettings&) const = default;
};

/// Fully sharded data parallelism (PyTorch FSDP; Zhao et al. 2023): one unit per block, one root unit for embedding and head.
struct FsdpSettings {
  bool enabled = false;
  Reshard reshard_after_forward = Reshard::automatic;   ///< automatic: always without pipeline stages, else never.
  Reshard reshard_after_backward = Reshard::automatic;  ///< automatic: likewise. never keeps parameters whole until the step's last use.
  int prefetch_forward = 1;      ///< Units gathered ahead of the one at work, 0 or more.
  int prefetch_backward = 1;
  bool limit_all_gathers = true; ///< false: a pass gathers all its units as soon as it begins.

  bool operator==(const FsdpSettings&) const = default;
};

/// ZeRO stage 3 as DeepSpeed runs it; counts are elements.
struct Zero3Settings {
  double prefetch_bucket = 5e7;        ///< Parameters gathered ahead of the block at work.
  double persistence_threshold = 1e5;  ///< Smaller parameters stay whole on every rank.

  bool operator==(const Zero3Settings&) const = default;
};

/// Parallel strategy. Sizes of axes multiply to the number of devices; `dp` is dp_replicate * dp_shard.
struct StrategySettings {
  int dp = 1, dp_replicate = 1, dp_shard = 1, tp = 1, pp = 1, cp = 1, ep = 1, etp = 1, tile_h = 1, tile_w = 1;
  std::int64_t microbatch = 1;       ///< Sequences per microbatch and replica.
  Dispatch dispatch = Dispatch::all_to_all;
  int dispatch_node = 0;             ///< Neighbouring expert-parallel ranks that one copy of a token serves; 0: those of one routing group.
  std::string schedule = "1f1b";     ///< Registered pipeline schedule.
  bool uneven_layers = false;        ///< Stages may differ by one layer where the chunks do not divide the layers.
  int virtual_stages = 1;            ///< Model chunks per pipeline rank.
  bool sequence_parallel = false;
  Recompute recompute = Recompute::none;
  int zero_stage = 0;                ///< Sharded over dp: 1 optimizer state, 2 and gradients, 3 and parameters.
  Bytes bucket{25e6};                ///< Gradient bucket size.
  Bytes first_bucket{0};             ///< Size of the bucket that is full first; 0: as the others.
  GradientSync grad_sync = GradientSync::automatic;
  DataParallelism data_parallel = DataParallelism::replicas;
  int servers = 1;                   ///< parameter_server: the first ranks, to which variables are dealt by size.
  FsdpSettings fsdp;
  Zero3Settings zero3;
  std::vector<std::string> placement{"tp", "cp", "ep", "dp", "pp"};  ///< Axes from the fastest varying device index to the slowest.
  std::string devices;               ///< File that says which device each rank runs on; empty: rank i on device i.
  bool scatter_gather = false;       ///< Pipeline messages split over tp ranks and gathered over NVLink (Narayanan et al. 2021, sec. 4.1).
  OverlapSettings overlap;
  Offload offload = Offload::none;

  bool operator==(const StrategySettings&) const = default;
};

/// Where samples come from. Without a sample size input costs its copy to the device only.
struct InputSettings {
  Bytes sample{0};                   ///< Stored size of one sample.
  BytesPerSecond storage{0};         ///< Read rate of one node, shared by its GPUs; 0: no limit.
  double decode_per_core = 0;        ///< Samples per second that one core decodes; 0: nothing to decode.
  int workers = 4;                   ///< Loader processes, a core each, per GPU.
  bool gpudirect_storage = false;    ///< Storage writes to GPU memory, past the CPU.

  bool operator==(const InputSettings&) const = default;
};

struct KernelSettings {
  AttentionKernel attention = AttentionKernel::flash;
  bool fused_norm = true;            ///< Norm, bias, dropout and residual run as fused kernels.
  bool fused_cross_entropy = false;
  bool cuda_graphs = false;          ///< Launch overhead of captured graphs.

  bool operator==(const KernelSettings&) const = default;
};

}  // namespace rehearse
