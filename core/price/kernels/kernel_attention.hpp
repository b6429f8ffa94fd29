#pragma once
// Time of fused (flash) attention.
//
//   F = 4 * b * h * s_q * d * L            L = keys a query sees on average: s_k, or causal (s_k - s_q/2 when s_k >=
//   s_q), or of a window of w keys
//                                          w less what the first queries lack: (w - (s_k - s_q))^2 / 2 s_q where that
//                                          base is positive
//   T = t0 + 4 * b * h * s_q * d' * (L + S0 + [causal] B/2) / (e_d * Peak)
//
// S0 stands for the start of each query block (in keys; backward also for what prepares and converts gradients), B for
// the diagonal blocks whose masked half is computed all the same (B/2 is at most all that is masked), d' for the head
// dimension rounded up to the size the kernel is compiled for. For s_q = s_k = s this is the familiar T = t0 + F/(e
// Peak) * (s + S0)/s, and (s + B + 2 S0)/s causal. Causal blocks are of unlike length: the last ones leave SMs idle,
// which multiplies causal T - t0 by 1 + tail * min(1, SMs / blocks), blocks = b * h * s_q / Q of Q queries each,
// backward b * h * s_k / 128 of keys. Where blocks are few, T - t0 is at least what the longest one takes on its SM,
// SMs / blocks * (s_k + S0) / (L + S0 + B/2) times the above, or SMs / blocks times without a mask: on B200, 4 and 8
// heads of 4,096 tokens take the same 0.09 ms forward and 0.11 ms backward. A window's blocks are alike, and its far
// edge is a second diagonal: no tail, B instead of B/2. Backward kernels in 8 bits mask what a window hides and compute
// it all the same: they take as long as without one (cuDNN 9.19 to 9.22 on Blackwell). A kernel at which the chip's
// power limit works for longer than it takes to react runs slower: T - t0 is multiplied by 1 + g (1 - exp(-(T - t0) /
// tau)), tau 0.09 s on Blackwell. In training the chip's power limit works all the time, and T - t0 is at least F / (p
// Peak): kernels that lose much at starts and diagonals run as in benchmarks, long ones slower. Backward does 2.5 F
// (five products for two: Dao 2023, FlashAttention-2, section 4) at e * backward_ratio. Operations follow the
// benchmarks of that paper: causal counts half.

#include <map>

#include "core/base/dtype.hpp"
#include "core/base/units.hpp"
#include "core/price/kernels/kernel_gemm.hpp"

namespace rehearse {

/// `kv_heads` < `heads` is grouped-query attention: it changes traffic, not operations.
struct AttentionShape {
  double batch = 1;
  double heads = 1;
  double kv_heads = 1;
  double seq_q = 1;
  double seq_k = 1;
  double head_dim = 64;
  bool causal = false;  ///< Queries are the last seq_q positions of seq_k keys.
  double window = 0;    ///< Keys up to its own position that a query sees at most, of causal passes; 0: all.
  /// Whether backward passes leave out what the window hides; those in 8 bits do not.
  bool window_skips_backward = true;
};

struct FlashConstants {
  /// e by head dimension (64, 128, 256; 160 is the mean of 192 and 128): share of the dense peak a forward pass reaches
  /// on long sequences. Between two of them e is linear in the dimension, outside it is the nearest one's.
  std::map<int, double> efficiency;
  double backward_ratio = 1;              ///< e backward over e forward ...
  std::map<int, double> backward_ratios;  ///< ... by head dimension, as `efficiency`, where it was measured.
  double start_keys = 0;                  ///< S0 forward.
  double start_keys_backward = 0;         ///< S0 backward.
  double diagonal_keys = 0;               ///< B.
  /// Share of the longest block that SMs idle at the end on average, of causal passes.
  double causal_tail = 0;
  double block_queries = 128;  ///< Q.
  /// Of HBM, for q, k, v, o and gradients: the limit of short or decode-like shapes.
  double bandwidth_fraction = 1;
  double long_slowdown = 0;  ///< g.
  Seconds long_after{1};     ///< tau.
  /// p: share of the peak that operations reach over a training step at most; 0: no limit but the kernel's own.
  double sustained = 0;
  Seconds fixed;  ///< t0.

  [[nodiscard]] double efficiency_at(double head_dim) const;
  [[nodiscard]] double backward_ratio_at(double head_dim) const;
};

struct FlashTime {
  Seconds compute;
  Seconds memory;
  Seconds fixed;
  Seconds total;
};

/// The shape as kernels in this type work on it.
[[nodiscard]] AttentionShape as_computed(AttentionShape s, DType type);
/// Average keys per query, L above.
[[nodiscard]] double attended_keys(const AttentionShape& s);
/// 4bhs²d over the attended keys; 2.5 times that backward.
[[nodiscard]] Flops attention_flops(const AttentionShape& s, bool backward);
/// q, k, v read and o written; backward also reads o and dO and writes dQ, dK, dV.
[[nodiscard]] Bytes attention_bytes(const AttentionShape& s, double bytes_per_element, bool backward);
[[nodiscard]] FlashTime flash_time(const AttentionShape& shape, double bytes_per_element, bool backward,
                                   const FlashConstants& c, const GemmRates& rates);

}  // namespace rehearse
