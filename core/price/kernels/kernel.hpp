#pragma once
// How long one kernel keeps a GPU busy. A kernel is described by what it computes and moves, never by a time;
// the time comes from the datasheet (GpuSpec) and from measured constants per generation and kernel class
// (CalibrationProfile). Times are device times: the gap between two launches is launch_overhead(), kept apart
// because the CPU queues launches ahead of a busy GPU.

#include <array>
#include <optional>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/units.hpp"
#include "core/hardware/specs.hpp"
#include "core/price/calibration/calibration.hpp"
#include "core/price/kernels/kernel_attention.hpp"
#include "core/price/kernels/kernel_convolution.hpp"
#include "core/price/kernels/kernel_gemm.hpp"

namespace rehearse {

enum class KernelClass {
  gemm,             ///< Matrix product, batched products included.
  grouped_gemm,     ///< Products of one shape over `batch` experts; `m` is the mean number of tokens per expert.
  attention_flash,  ///< Fused attention that never writes the score matrix.
  softmax,          ///< Scale, mask and softmax of stored scores, in one pass.
  norm,             ///< LayerNorm, RMSNorm.
  elementwise,      ///< Bias, GELU, dropout, residual: any fused map over elements.
  embedding,        ///< Row gather or scatter.
  cross_entropy,    ///< Loss over logits.
  optimizer,        ///< Parameter update over flat buffers.
  reduction,        ///< Sums over rows, columns or everything: bias gradients, norms of gradients.
  copy,             ///< Device to device, casts and transposes included.
  /// Convolutions and their gradients, by the fastest of several algorithms (kernel_convolution.hpp).
  convolution,
  pool,        ///< Windows of an image: maxima, means and their gradients.
  batch_norm,  ///< Moments per channel, and the passes that use them.
  /// Casts to fp8 with a scale for each block of 32. Those with one scale for the tensor are elementwise.
  quantise_mxfp8,
  /// Casts to fp4 with a scale for each block of 16, without the pass that finds the tensor's largest value.
  quantise_nvfp4,
  /// The recurrence of Mamba-2 in chunks: seven kernels forward, eighteen backward, bound by what they leave for one
  /// another.
  state_space,
};
inline constexpr int kKernelClasses = 17;

/// "gemm", "attention_flash", "norm", ...; memory-bound classes have their constants under this name in a calibration
/// profile.
[[nodiscard]] std::string_view name_of(KernelClass c);

/// One kernel, or `launches` equal-sized parts of one. Which fields matter depends on the class:
/// products read `gemm`, flash attention reads `attention`, convolutions read `convolution` and the byte counts, all
/// others the latter.
struct Kernel {
  KernelClass cls = KernelClass::elementwise;
  DType dtype = DType::bf16;  ///< Arithmetic and storage of the inputs.
  DType out = DType::bf16;    ///< Storage of the output.
  bool accumulate = false;    ///< The output is read, added to and written (weight gradients into a main buffer).
  bool zeros = false;         ///< Products: operands of zeros (GemmStorage::zeros); no training step has them.
  bool one_by_one = false;    ///< grouped_gemm: the library is called for each group, over a few streams.
  GemmShape gemm{};
  AttentionShape attention{};
  ConvolutionShape convolution{};
  bool backward = false;  ///< Flash attention: all gradients. Products: an operand may be stored transposed.
  /// Least traffic of the operands; for products and attention only the physics check reads it.
  Bytes bytes_read;
  Bytes bytes_written;
  int launches = 1;  ///< Each pays the fixed time; 0: another kernel does its work.
  Flops flops;       ///< Arithmetic of memory-bound classes; products and attention count their own.
};

/// A product with its byte counts and operations filled in from the shape.
[[nodiscard]] Kernel make_gemm(GemmShape shape, DType dtype, DType out, bool accumulate = false, bool backward = false);
/// Flash attention with its byte counts filled in: q, k, v read and the output written; twice that and the gradients,
/// backward.
[[nodiscard]] Kernel make_flash_attention(AttentionShape shape, DType dtype, bool backward = false);
/// A convolution or a gradient of one, that reads and writes its operands once.
[[nodiscard]] Kernel make_convolution(const ConvolutionShape& shape, Bytes read, Bytes written, DType dtype);
/// Sizes of a recurrence, over the tokens of all sequences.
struct StateSpaceShape {
  double tokens = 0, heads = 0, head_dim = 0, groups = 0, state = 0, chunk = 1;
};

/// The kernels of a recurrence in chunks (Dao and Gu 2024, sec. 6). A chunk of L tokens costs products of L x L scores
/// per group, n deep, and per head what they weigh, the state that the chunk leaves [p,n] and what it finds: 2 (g L n +
/// a (L p + 2 n p)) a token, backward 2.5 times that (an estimate, as for attention; no price at hand is bound by it).
/// What moves is counted kernel by kernel in state-spaces/mamba, mamba_ssm/ops/triton/ssd_combined.py
/// (MambaSplitConv1dScanCombinedFn): with A = a p, G = g n, elements of e bytes, and of fp32 S = a p n / L states and Q
/// = g L scores, e (6 A + 8 G) + 4 (4 S + 2 Q) a token forward, e (21 A + 23 G) + 4 (10 S + 6 Q) backward, where
/// convolution, states and scores are made again.
[[nodiscard]] Kernel make_state_space(const StateSpaceShape& shape, DType dtype, int launches, bool backward = false);
/// A memory-bound kernel.
[[nodiscard]] Kernel make_memory_bound(KernelClass cls, Bytes read, Bytes written, DType dtype = DType::bf16,
                                       int launches = 1);

/// Operations a kernel does: 2bmnk, 4bhs²d (2.5 times that backward), or what the caller states.
[[nodiscard]] Flops flops_of(const Kernel& kernel);

struct KernelTime {
  Seconds time;           ///< Device time of all launches together.
  Seconds compute_bound;  ///< Time if only arithmetic limited it, at the calibrated rate.
  Seconds memory_bound;   ///< Time if only HBM limited it, at the calibrated rate.
  Seconds fixed;          ///< In-kernel time that no size changes (prologue, epilogue, tail).
  /// Elasticity of `time` to a loss of SMs or of HBM bandwidth, each in [0, 1], their sum at most 1. While a
  /// collective holds a share x of the SMs the kernel runs 1 / (1 - sm_sensitivity * x) times as long, to first order.
  double sm_sensitivity = 0;
  double hbm_sensitivity = 0;
  /// A product dimension is not a multiple of 16 bytes: the slow kernel class was priced, and the plan deserves a
  /// warning.
  bool misaligned = false;
};

/// Prices kernels on one GPU. Immutable, cheap to copy, safe to share between threads.
class KernelModel {
 public:
  /// Throws Error (usage) when the profile lacks a constant or holds one out of range.
  KernelModel(const GpuSpec& gpu, const CalibrationProfile& profile);

  /// Products (kernel_gemm.hpp), flash attention (kernel_attention.hpp), convolutions (kernel_convolution.hpp), all
  /// others
  ///   T = launches * t0 + bytes / (f * HBM),  f per class.
  /// Throws Error (usage) for arithmetic the GPU has no peak for. Sizes must be positive; zero work takes the fixed
  /// time.
  [[nodiscard]] KernelTime price(const Kernel& kernel) const;

  /// Gap between two kernel launches that the CPU cannot keep ahead of: eager launches, without CUDA graphs.
  [[nodiscard]] Seconds launch_overhead() const { return launch_overhead_; }
  /// CPU time of the code around one operation of the model, its launch included: what eager code takes where the GPU
  /// is faster.
  [[nodiscard]] Seconds operation_overhead() const { return operation_overhead_; }
  /// CPU time around one product of experts whose rows are counted (dropless): the host waits for the counts, then
  /// prepares and launches ...
  [[nodiscard]] Seconds counted_product_overhead() const { return counted_product_overhead_; }
  /// ... and for each expert of it, which is launched by itself, and whose weight's gradient has a hook of its own.
  /// Layers of many small experts take as long as that, whatever the GPU.
  [[nodiscard]] Seconds expert_product_overhead() const { return expert_product_overhead_; }

  /// CPU time to update one tensor whose optimizer state is divided over ranks while it is not: views of slices, copies
  /// to and from the master's type, each by itself.
  [[nodiscard]] Seconds divided_update_overhead() const { return divided_update_overhead_; }

  /// Lower bound that no kernel can beat, from the datasheet alone: the larger of operations over the dense peak and
  /// traffic over HBM bandwidth. Up to one L2 of reads may hit lines left by the kernel before, and up to one L2 of
  /// writes may stay there, so both are granted before HBM is charged.
  [[nodiscard]] Seconds floor(const Kernel& kernel) const;

  /// What the prices rest on: one item per group of constants, worst evidence of the group, with its held-out error.
  [[nodiscard]] const std::vector<EvidenceItem>& evidence() const { return evidence_; }

 private:
  struct Bandwidth {
    double fraction = 0;
    double fixed = 0;
  };

  [[nodiscard]] const GemmConstants& gemm_constants(DType t) const;
  [[nodiscard]] KernelTime price_gemm(const Kernel& kernel) const;
  [[nodiscard]] KernelTime price_flash(const Kernel& kernel) const;
  [[nodiscard]] KernelTime price_convolution(const Kernel& kernel) const;
  [[nodiscard]] KernelTime price_bytes(const Kernel& kernel) const;
  [[nodiscard]] bool tensor_cores(DType t) const;

  GpuSpec gpu_;
  GemmConstants gemm_, gemm_fp8_, gemm_mxfp8_, gemm_fp4_;
  FlashConstants flash_;
  std::optional<FlashConstants> flash_fp8_, flash_mxfp8_;
  std::array<Bandwidth, kKernelClasses> bandwidth_{};
  std::array<ConvolutionConstants, kConvolutionClasses> convolution_{};
  /// Time of a product against one whose rows start on 16 bytes: on fewer than 4, and on 4 to 8.
  double misaligned_ = 1, misaligned_4_bytes_ = 1;
  double group_share_ = 0;  ///< Of a product's fixed time, that each further product of a group adds.
  Seconds launch_overhead_;
  Seconds counted_product_overhead_, expert_product_overhead_, divided_update_overhead_, operation_overhead_;
  std::vector<EvidenceItem> evidence_;
};

}  // namespace rehearse
