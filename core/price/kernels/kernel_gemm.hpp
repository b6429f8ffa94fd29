#pragma once
// Time of a matrix product C[m,n] += A[m,k] B[k,n], `batch` times in one launch, from its shape and a few constants per
// GPU.
//
// Two formulas; a calibration profile says which of them its constants belong to, chosen by held-out error.
//
// soft_roofline
//   Tc = 2bmnk * (1 + k0/k) / (e * Peak)        Tm = bytes / (f * HBM)        T = t0 + (Tc^p + Tm^p)^(1/p)
//
// tile_wave: the output is cut into x by y tiles that SMs take in waves, for the best of eight tile shapes
//   w  = ceil(m/x) * ceil(n/y) * b / SMs                        waves = max(1, (1-a) * w + a * ceil(w))
//   Tc = waves * 2xy * (k + k0) / (e * eff * Peak / SMs)        eff   = 1 / (1 + c * (1/x + 1/y - 1/128 - 1/256))
//   with the same Tm and T. `a` blends whole waves (1) with perfect balance (0): stream-K and uneven clocks blur the
//   staircase; `k0` is the prologue of one tile in units of k; `c` is what a small tile loses to operand re-reads.
//
// Both: a kernel shorter than the power limit's reaction runs above the rate that the limit leaves a long one,
//   Tc /= 1 + g * exp(-T1 / tau)                                T1 = 2bmnk / (e * Peak)
//   where g is larger for operands of zeros, which toggle few wires (He, "Strangely, Matrix Multiplications on GPUs Run
//   Faster When Given 'Predictable' Data!", thonking.ai 2024). g is 0 where training holds the chip at its limit all
//   the time.
//
// Tile quantisation: Nvidia, "Matrix Multiplication Background User's Guide", section 3; roofline: Williams et al.,
// CACM 52(4), 2009. A p-norm joins both limits because compute and memory overlap badly near the ridge: p = 1 is no
// overlap, large p perfect overlap.

#include "core/base/units.hpp"

namespace rehearse {

/// Sizes are counts, at least 1; fractional values are allowed where they are expectations (tokens per expert).
struct GemmShape {
  double batch = 1;
  double m = 1;
  double n = 1;
  double k = 1;
};

/// Bytes per element of the operands, and whether the output is read as well as written.
struct GemmStorage {
  double in = 2;
  double out = 2;
  bool accumulate = false;
  bool zeros = false;  ///< Operands of zeros, as some benchmarks have them.
};

enum class GemmFormula { soft_roofline, tile_wave };

/// The names used in calibration profiles; parse throws Error (usage) with the valid ones.
[[nodiscard]] std::string_view name_of(GemmFormula f);
[[nodiscard]] GemmFormula parse_gemm_formula(std::string_view name);

struct GemmConstants {
  GemmFormula formula = GemmFormula::soft_roofline;
  double efficiency = 0;          ///< e: share of the dense peak that a large product reaches, (0, 1].
  double bandwidth_fraction = 0;  ///< f: share of HBM bandwidth that its operands reach, (0, 1].
  Seconds fixed;                  ///< t0: inside the kernel, not the launch gap.
  double overlap_power = 1;       ///< p, at least 1.
  double k_prologue = 0;          ///< k0, in elements of k.
  double tile_penalty = 0;        ///< c, in elements; tile_wave only.
  double wave_quantisation = 0;   ///< a in [0, 1]; tile_wave only.
  double accumulate_factor = 1;   ///< e of a product that accumulates into fp32, over e of one that does not.
  double burst_gain = 0;          ///< g: what a short kernel's rate gains over a long one's.
  double burst_gain_zeros = 0;    ///< g of operands of zeros.
  Seconds burst{};                ///< tau; 0: no gain at all.
};

/// What the datasheet says of the GPU for one arithmetic type.
struct GemmRates {
  FlopsPerSecond peak;
  BytesPerSecond hbm;
  int sms = 1;
};

/// The two limits and their soft maximum.
struct GemmTime {
  Seconds compute;
  Seconds memory;
  Seconds fixed;
  Seconds total;
  double compute_share = 0;  ///< d ln(total) / d ln(compute): Tc^p / (Tc^p + Tm^p) * (1 - t0/T).
  double memory_share = 0;   ///< The same for memory; both shares and t0/T add to 1.
};

/// Shapes of tiles that kernels of a library have, as bits: sides in elements of m by n.
enum TileSet : unsigned {
  tiles_256x128 = 1U << 0U,
  tiles_128x256 = 1U << 1U,
  tiles_128x128 = 1U << 2U,
  tiles_256x64 = 1U << 3U,
  tiles_64x256 = 1U << 4U,
  tiles_128x64 = 1U << 5U,
  tiles_64x128 = 1U << 6U,
  tiles_64x64 = 1U << 7U,
  tiles_256x32 = 1U << 8U,
  tiles_128x32 = 1U << 9U,
  tiles_32x128 = 1U << 10U,
  tiles_32x256 = 1U << 11U
};
inline constexpr unsigned kTilesFrom64 = 0xff;   ///< Those of matrix products.
inline constexpr unsigned kTilesFrom32 = 0xfff;  ///< With those of few channels.

/// What the tiles of tile_wave take, before the efficiency of a large product.
struct TileRates {
  double penalty = 0;            ///< c.
  double wave_quantisation = 0;  ///< a.
  double prologue = 0;           ///< k0.
  double peak_per_sm = 1;
  int sms = 1;
  /// Where tiles leave SMs idle, k is divided among them into pieces of at least this; 0: never.
  double shortest_depth = 0;
  unsigned tiles = kTilesFrom64;  ///< Of TileSet, at least one.
};
struct TiledProduct {
  double seconds = 0;  ///< At the peak: waves * 2xy * (k + k0) / eff / (Peak / SMs).
  double pieces = 1;   ///< That k is divided into.
};
/// With the best tile.
[[nodiscard]] TiledProduct tiled(const GemmShape& s, const TileRates& rates);

/// 2 * batch * m * n * k.
[[nodiscard]] Flops gemm_flops(const GemmShape& s);
/// batch * ((mk + nk) * in + mn * out * (1 + accumulate)): every operand once.
[[nodiscard]] Bytes gemm_bytes(const GemmShape& s, const GemmStorage& storage);
/// Formulas above; `slowdown` multiplies the compute limit (1 for an aligned product).
[[nodiscard]] GemmTime gemm_time(const GemmShape& s, const GemmStorage& storage, const GemmConstants& c,
                                 const GemmRates& rates, double slowdown = 1);
/// The same with the traffic given, for products that count their output otherwise.
[[nodiscard]] GemmTime gemm_time(const GemmShape& s, Bytes traffic, const GemmStorage& storage, const GemmConstants& c,
                                 const GemmRates& rates, double slowdown = 1);
/// Tiles of 128 x 256 over SMs: below 1 the GPU is not full. The classes of the error tables.
[[nodiscard]] double gemm_waves(const GemmShape& s, int sms);

}  // namespace rehearse
