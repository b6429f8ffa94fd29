#pragma once
// The settings of a scenario after parsing and validation: what lower() and the cost model read. The schema
// (names, types, ranges, defaults, help) is one table in schema/; these structs hold its values. A key that one file
// alone reads is declared there instead: setting_key.hpp.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/config/setting_key.hpp"

namespace rehearse {

enum class Precision { fp32, tf32, bf16, fp16_mixed, bf16_mixed, fp8_mixed, fp4_mixed };
/// How numbers are brought into the range of fp8.
enum class Fp8Recipe {
  /// A scale per tensor, from its largest value of the step before (Micikevicius et al. 2022; Transformer Engine): one
  /// pass casts.
  delayed,
  tensorwise,  ///< A scale per tensor, from its own largest value: a pass to find it, one to cast.
  rowwise,     ///< A scale per row of each operand.
  blockwise,   ///< 1 x 128 of activations and gradients, 128 x 128 of weights (DeepSeek-AI 2024, sec. 3.3.2).
  /// 1 x 32, scales that are powers of two, applied by the tensor cores (OCP Microscaling v1.0): from Blackwell on.
  mxfp8
};
/// How many copies a cast to fp8 with one scale per tensor writes.
enum class Fp8Copies {
  automatic,  ///< As the GPUs need: lower() with a cluster, or on_machines().
  two,        ///< A product reads both operands along its inner dimension (Hopper): one copy in rows, one turned.
  one         ///< It reads them along either (Blackwell).
};
enum class Recompute { none, selective, full };
/// Which layers full recomputation is for (Megatron's --recompute-method).
enum class RecomputeMethod {
  uniform,  ///< All of a chunk, in groups of `recompute_layers` of which only the first one's input is kept.
  block     ///< The first `recompute_layers` of a chunk; the others keep everything.
};
enum class AttentionKernel { unfused, flash };
/// Which flash attention runs; automatic takes the one that frameworks prefer on the GPU's generation.
enum class FlashKernel { automatic, flash_triton, flash1, flash2, flash3, cudnn_9_13, cudnn };
/// Whose code launches kernels: what the CPU spends on each differs.
enum class HostCode {
  eager,     ///< PyTorch eager mode, one launch per kernel.
  megatron,  ///< Megatron Core and NeMo: modules of Python around every operation.
  /// Megatron-DeepSpeed's engine: checkpointing, loss scaling and hooks run in Python around every layer.
  megatron_deepspeed
};
/// Whose calls of the library multiply matrices: over a training run they draw unlike power, and so sustain unlike
/// clocks.
enum class ProductCalls {
  transformer_engine,  ///< Megatron-LM, NeMo.
  pytorch              ///< torch.nn.Linear, eager or compiled.
};
enum class GradientDtype { fp32, model };
/// Update rules: SGD with momentum, Adam (Kingma & Ba 2015), AdamW (Loshchilov & Hutter 2019), Adafactor (Shazeer &
/// Stern 2018), LAMB (You et al. 2020).
enum class Optimizer { sgd, adam, adamw, adafactor, lamb };
/// That of a second network: the first one's, or one of its own.
enum class OwnOptimizer { same, sgd, adam, adamw, adafactor, lamb };
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

/// How context-parallel ranks, each with a slice of every sequence, attend to the others' keys.
enum class ContextExchange {
  /// Keys and values travel from rank to rank, block by block, under the attention of the block at hand (Liu et al.
  /// 2023).
  ring,
  ulysses,   ///< All-to-all: from slices of the sequence to slices of the heads, and back (Jacobs et al. 2023).
  allgather  ///< Every rank gathers all keys and values (Llama 3: Dubey et al. 2024, section 3.3.2).
};

/// Where data-parallel replicas find parameters and leave gradients.
enum class DataParallelism {
  replicas,  ///< Each keeps a copy; gradients are reduced between them (DistributedDataParallel).
  /// GPU 0 keeps them: one process loads, scatters, broadcasts, gathers and updates there (torch.nn.DataParallel).
  funnel,
  /// Dealt to server ranks: every step each replica pulls them from there and pushes gradients back.
  parameter_server
};

/// When the gradients of accumulated microbatches go over the wire.
enum class GradientSync {
  automatic,  ///< What the strategy's framework does: every microbatch where gradients are kept as shards, else last.
  last,       ///< Once per step, after the last microbatch (`no_sync` before it).
  every       ///< After every microbatch.
};
/// Which shares follow the speed of the devices, where machines differ.
enum class Balance {
  none,      ///< Equal shares, or those given.
  layers,    ///< Layers per stage: the slowest stage is as fast as contiguous layers allow.
  batch,     ///< Microbatches per replica, in proportion to speed.
  automatic  ///< Each of the two where devices differ along its axis.
};
/// Whether gathered parameters are dropped after a pass.
enum class Reshard { automatic, always, never };

/// The text forms, in the order of the enumerators. Defined for every enum of this file.
template <class Enum>
[[nodiscard]] const std::vector<std::string>& names_of();
template <>
const std::vector<std::string>& names_of<Precision>();
template <>
const std::vector<std::string>& names_of<Fp8Recipe>();
template <>
const std::vector<std::string>& names_of<Fp8Copies>();
template <>
const std::vector<std::string>& names_of<RecomputeMethod>();
template <>
const std::vector<std::string>& names_of<Recompute>();
template <>
const std::vector<std::string>& names_of<AttentionKernel>();
template <>
const std::vector<std::string>& names_of<FlashKernel>();
template <>
const std::vector<std::string>& names_of<HostCode>();
template <>
const std::vector<std::string>& names_of<ProductCalls>();
template <>
const std::vector<std::string>& names_of<GradientDtype>();
template <>
const std::vector<std::string>& names_of<Optimizer>();
template <>
const std::vector<std::string>& names_of<OwnOptimizer>();
template <>
const std::vector<std::string>& names_of<StatisticsScope>();
template <>
const std::vector<std::string>& names_of<Offload>();
template <>
const std::vector<std::string>& names_of<DataParallelism>();
template <>
const std::vector<std::string>& names_of<GradientSync>();
template <>
const std::vector<std::string>& names_of<Balance>();
template <>
const std::vector<std::string>& names_of<Reshard>();
template <>
const std::vector<std::string>& names_of<Imbalance>();
template <>
const std::vector<std::string>& names_of<Dispatch>();
template <>
const std::vector<std::string>& names_of<ContextExchange>();

[[nodiscard]] inline const std::string& name_of(Precision v) {
  return names_of<Precision>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(Fp8Recipe v) {
  return names_of<Fp8Recipe>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(Fp8Copies v) {
  return names_of<Fp8Copies>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(RecomputeMethod v) {
  return names_of<RecomputeMethod>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(Recompute v) {
  return names_of<Recompute>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(AttentionKernel v) {
  return names_of<AttentionKernel>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(FlashKernel v) {
  return names_of<FlashKernel>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(HostCode v) {
  return names_of<HostCode>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(ProductCalls v) {
  return names_of<ProductCalls>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(GradientDtype v) {
  return names_of<GradientDtype>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(Optimizer v) {
  return names_of<Optimizer>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(OwnOptimizer v) {
  return names_of<OwnOptimizer>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(StatisticsScope v) {
  return names_of<StatisticsScope>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(Offload v) { return names_of<Offload>()[static_cast<std::size_t>(v)]; }
[[nodiscard]] inline const std::string& name_of(DataParallelism v) {
  return names_of<DataParallelism>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(GradientSync v) {
  return names_of<GradientSync>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(Balance v) { return names_of<Balance>()[static_cast<std::size_t>(v)]; }
[[nodiscard]] inline const std::string& name_of(Reshard v) { return names_of<Reshard>()[static_cast<std::size_t>(v)]; }
[[nodiscard]] inline const std::string& name_of(Imbalance v) {
  return names_of<Imbalance>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(Dispatch v) {
  return names_of<Dispatch>()[static_cast<std::size_t>(v)];
}
[[nodiscard]] inline const std::string& name_of(ContextExchange v) {
  return names_of<ContextExchange>()[static_cast<std::size_t>(v)];
}

/// How many tokens an expert takes, and how many choose it.
struct ExpertSettings {
  /// Rows that an expert takes of one rank's tokens, over the mean; 0: all of them (dropless).
  double capacity_factor = 0;
  /// Buffers are filled up to the capacity, so that all sizes are known beforehand.
  bool pad_to_capacity = false;
  Imbalance imbalance = Imbalance::none;
  double zipf_exponent = 0.5;  ///< For Imbalance::zipf, at least 0.

  bool operator==(const ExpertSettings&) const = default;
};

/// Products in fp8 (Precision::fp8_mixed): the linear layers between embedding and head, each product of forward and
/// backward.
struct Fp8Settings {
  Fp8Recipe recipe = Fp8Recipe::delayed;
  bool parameters = false;  ///< Working weights are stored, and gathered, in fp8 instead of bf16.
  Fp8Copies copies = Fp8Copies::automatic;
  bool attention = false;  ///< Products of fused attention too.
  /// In fp4: what weight gradients read is rotated before its cast (random Hadamard transform).
  bool rotation = true;

  bool operator==(const Fp8Settings&) const = default;
};

/// Optimizer::adafactor.
struct AdafactorSettings {
  bool relative_step = true;    ///< Step min(1e-2, 1/sqrt(t)); false: the learning rate.
  bool scale_parameter = true;  ///< The step is multiplied by the root mean square of the parameter, 1e-3 at least.
  double clip_threshold = 1.0;  ///< Largest root mean square of an update before the step size; above 0.

  bool operator==(const AdafactorSettings&) const = default;
};

/// The update of a network's discriminator, where it is another than training.optimizer.
struct DiscriminatorSettings {
  OwnOptimizer optimizer = OwnOptimizer::same;
  double learning_rate = 0;  ///< 0: training.learning_rate.

  bool operator==(const DiscriminatorSettings&) const = default;
};

/// Low-rank adapters (Hu et al. 2021, LoRA): beside a product W x a second one, alpha/rank B A x, of which A [rank, in]
/// and B [out, rank] alone are trained.
struct LoraSettings {
  std::int64_t rank = 0;  ///< 0: no adapters, all weights are trained.
  double alpha = 32;      ///< Of the factor alpha / rank.
  /// Products of a layer that have one: of attention's input and output, of the MLP's.
  std::vector<std::string> targets{"qkv", "proj", "fc1", "fc2"};
  double dropout = 0;  ///< Of what an adapter reads.
  /// Beside row-parallel products: B is split by outputs, which tensor-parallel ranks exchange for tokens; else whole.
  bool all_to_all = false;

  bool operator==(const LoraSettings&) const = default;
};

struct TrainingSettings {
  std::int64_t global_batch = 0;  ///< Sequences per optimizer step.
  /// Tokens per sequence; 0 takes the model's maximum, and stays 0 where samples are no sequences.
  std::int64_t sequence_length = 0;
  std::int64_t image_height = 0;  ///< Pixels; 0 takes the model's own.
  std::int64_t image_width = 0;   ///< Pixels; 0 takes the model's own.
  Precision precision = Precision::bf16_mixed;
  GradientDtype gradient_dtype = GradientDtype::fp32;
  Optimizer optimizer = Optimizer::adam;
  double learning_rate = 3e-4;  ///< Constant over the run.
  /// Of weights with two dimensions or more; adamw subtracts it from them, the others add it to the gradient.
  double weight_decay = 0;
  bool clip_gradients = true;  ///< Global gradient norm: an all-reduce over every rank before the update.
  double tokens = 0;           ///< Tokens of the whole run; 0 leaves the run's length out of the answer.
  std::uint64_t seed = 1;
  StatisticsScope statistics = StatisticsScope::local;
  ExpertSettings experts;
  Fp8Settings fp8;
  AdafactorSettings adafactor;
  DiscriminatorSettings discriminator;
  LoraSettings lora;
  DeclaredSettings declared = {};  ///< Keys that other files declare.

  bool operator==(const TrainingSettings&) const = default;
};

struct OverlapSettings {
  bool grad_reduce = true;    ///< Gradient buckets are reduced while backward still runs.
  bool param_gather = false;  ///< ZeRO: gathered parameters arrive during the next forward.
  bool tp = false;            ///< Tensor-parallel collectives are hidden under split GEMMs in forward too.
  /// The input gradient's reduction runs under the weight gradient's product; otherwise nothing runs beside it.
  bool tp_backward = true;
  /// Pipeline sends run beside compute; otherwise a stage computes on only when its message has left.
  bool pp = true;

  bool operator==(const OverlapSettings&) const = default;
};

/// Fully sharded data parallelism (PyTorch FSDP; Zhao et al. 2023): one unit per block, one root unit for embedding and
/// head.
struct FsdpSettings {
  bool enabled = false;
  Reshard reshard_after_forward = Reshard::automatic;  ///< automatic: always without pipeline stages, else never.
  /// automatic: likewise. never keeps parameters whole until the step's last use.
  Reshard reshard_after_backward = Reshard::automatic;
  int prefetch_forward = 1;  ///< Units gathered ahead of the one at work, 0 or more.
  int prefetch_backward = 1;
  bool limit_all_gathers = true;  ///< false: a pass gathers all its units as soon as it begins.

  bool operator==(const FsdpSettings&) const = default;
};

/// ZeRO stage 3 as DeepSpeed runs it; counts are elements.
struct Zero3Settings {
  double prefetch_bucket = 5e7;        ///< Parameters gathered ahead of the block at work.
  double persistence_threshold = 1e5;  ///< Smaller parameters stay whole on every rank.
  /// Parameters whose next use is further away are dropped: those that a recomputed layer used long before its backward
  /// are gathered again.
  double reuse_distance = 1e9;
  /// Every parameter is a call of its own over a list of tensors, one per rank, before which the device is idle
  /// (DeepSpeed until October 2021).
  bool lists = false;

  bool operator==(const Zero3Settings&) const = default;
};

/// Parallel strategy. Sizes of axes multiply to the number of devices; `dp` is dp_replicate * dp_shard.
struct StrategySettings {
  int dp = 1, dp_replicate = 1, dp_shard = 1, tp = 1, pp = 1, cp = 1, ep = 1, etp = 1, tile_h = 1, tile_w = 1;
  std::int64_t microbatch = 1;                      ///< Sequences per microbatch and replica.
  ContextExchange context = ContextExchange::ring;  ///< With cp > 1.
  Dispatch dispatch = Dispatch::all_to_all;
  /// Neighbouring expert-parallel ranks that one copy of a token serves; 0: those of one routing group.
  int dispatch_node = 0;
  std::string schedule = "1f1b";  ///< Registered pipeline schedule.
  bool uneven_layers = false;     ///< Stages may differ by one layer where the chunks do not divide the layers.
  /// Layers of each chunk in model order, pp * virtual_stages of them; empty: equal shares.
  std::vector<std::int64_t> layers_per_stage;
  /// Sequences of each replica per step, multiples of `microbatch`; empty: equal shares.
  std::vector<std::int64_t> batch_per_replica;
  Balance balance = Balance::none;  ///< Fills in those two that are empty.
  int virtual_stages = 1;           ///< Model chunks per pipeline rank.
  bool sequence_parallel = false;
  Recompute recompute = Recompute::none;
  /// Recompute::selective: modules whose results are made again in backward.
  std::vector<std::string> recompute_modules{"core_attn"};
  RecomputeMethod recompute_method = RecomputeMethod::uniform;
  /// Recompute::full: layers per group (uniform) or per chunk (block), at least 1.
  int recompute_layers = 1;
  int zero_stage = 0;     ///< Sharded over dp: 1 optimizer state, 2 and gradients, 3 and parameters.
  Bytes bucket{25e6};     ///< Gradient bucket size.
  Bytes first_bucket{0};  ///< Size of the bucket that is full first; 0: as the others.
  GradientSync grad_sync = GradientSync::automatic;
  DataParallelism data_parallel = DataParallelism::replicas;
  int servers = 1;  ///< parameter_server: the first ranks, to which variables are dealt by size.
  FsdpSettings fsdp;
  Zero3Settings zero3;
  /// Axes from the fastest varying device index to the slowest.
  std::vector<std::string> placement{"tp", "cp", "ep", "dp", "pp"};
  std::string devices;  ///< File that says which device each rank runs on; empty: rank i on device i.
  /// Microbatches whose weight gradient of the output layer waits for the last stage's last backward.
  int deferred_head_gradients = 0;
  /// Pipeline messages split over tp ranks and gathered over NVLink (Narayanan et al. 2021, sec. 4.1).
  bool scatter_gather = false;
  OverlapSettings overlap;
  Offload offload = Offload::none;
  /// Layers of a chunk, from its first, whose activations go to host memory; 0: all but its last.
  int offload_layers = 0;
  DeclaredSettings declared = {};  ///< Keys that other files declare.

  bool operator==(const StrategySettings&) const = default;
};

/// Where samples come from. Without a sample size input costs its copy to the device only.
struct InputSettings {
  Bytes sample{0};                 ///< Stored size of one sample.
  BytesPerSecond storage{0};       ///< Read rate of one node, shared by its GPUs; 0: no limit.
  double decode_per_core = 0;      ///< Samples per second that one core decodes; 0: nothing to decode.
  int workers = 4;                 ///< Loader processes, a core each, per GPU.
  bool gpudirect_storage = false;  ///< Storage writes to GPU memory, past the CPU.
  DeclaredSettings declared = {};  ///< Keys that other files declare.

  bool operator==(const InputSettings&) const = default;
};

struct KernelSettings {
  AttentionKernel attention = AttentionKernel::flash;
  /// Norm, bias, dropout, residual, rotation and gated activation are a kernel each; else PyTorch's eager operators.
  bool fused_norm = true;
  /// Gated and squared activations are a kernel; without `fused_norm` they never are.
  bool fused_activation = true;
  bool fused_cross_entropy = false;
  /// Weight gradients are added up by the products that make them; else by a kernel each (PyTorch's AccumulateGrad).
  bool fused_gradient_accumulation = true;
  bool cuda_graphs = false;  ///< Launch overhead of captured graphs.
  /// CUDA_LAUNCH_BLOCKING=1: the host waits for every kernel, so that its time and the device's add up.
  bool launch_blocking = false;
  bool clip_on_device = false;  ///< The host does not wait for the gradients' norm before it updates.
  /// Norms and activations write what the products beside them read in fp8, where scales need no look at the whole
  /// tensor.
  bool fused_casts = false;
  /// Low-rank adapters' products scale and add what they write to what is there, where no tensor parallelism splits
  /// them.
  bool fused_adapters = false;
  /// Gated activation of experts and the casts of what it reads and writes run inside their products.
  bool fused_experts = false;
  FlashKernel flash = FlashKernel::automatic;  ///< Where attention is flash.
  HostCode host = HostCode::eager;
  ProductCalls products = ProductCalls::transformer_engine;
  /// Activations are [sample, sequence, hidden] in memory, as in PyTorch's DTensor: pieces of several samples'
  /// sequences that tensor parallelism gathers or scatters are put in order by a copy, and fp8 operands that it
  /// gathered are turned by another for the weight gradient (torchao).
  bool samples_first = false;
  /// Products that read the same tokens gather them one by one, and reduce their gradients one by one.
  bool gather_per_product = false;
  DeclaredSettings declared = {};  ///< Keys that other files declare.

  bool operator==(const KernelSettings&) const = default;
};

}  // namespace rehearse
