#pragma once
// What the keys of a scenario choose between, and the words for it.

#include <cstddef>
#include <string>
#include <vector>

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
/// How far recomputed layers run again.
enum class CheckpointStyle {
  megatron,  ///< To their end.
  pytorch    ///< To the last value that backward reads: torch.utils.checkpoint stops early.
};
/// Whether gathered parameters are dropped after a pass.
enum class Reshard { automatic, always, never };

/// The words of a choice, in the order of the enumerators: one for every enum of this file.
template <class T>
[[nodiscard]] const std::vector<std::string>& names_of() = delete;
template <>
const std::vector<std::string>& names_of<Precision>();
template <>
const std::vector<std::string>& names_of<Fp8Recipe>();
template <>
const std::vector<std::string>& names_of<Fp8Copies>();
template <>
const std::vector<std::string>& names_of<Recompute>();
template <>
const std::vector<std::string>& names_of<RecomputeMethod>();
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
const std::vector<std::string>& names_of<Imbalance>();
template <>
const std::vector<std::string>& names_of<Dispatch>();
template <>
const std::vector<std::string>& names_of<ContextExchange>();
template <>
const std::vector<std::string>& names_of<DataParallelism>();
template <>
const std::vector<std::string>& names_of<GradientSync>();
template <>
const std::vector<std::string>& names_of<Balance>();
template <>
const std::vector<std::string>& names_of<Reshard>();
template <>
const std::vector<std::string>& names_of<CheckpointStyle>();

/// Those that names_of() knows.
template <class T>
concept Choice = requires {
  names_of<T>();
};

/// The word for a choice.
template <Choice T>
[[nodiscard]] const std::string& name_of(T choice) {
  return names_of<T>()[static_cast<std::size_t>(choice)];
}

}  // namespace rehearse
