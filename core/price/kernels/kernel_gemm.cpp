#include "core/price/kernels/kernel_gemm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace rehearse {
namespace {

struct Tile {
  double x, y;
};
// In the order of TileSet.
constexpr std::array<Tile, 12> kTiles{{{256, 128},
                                       {128, 256},
                                       {128, 128},
                                       {256, 64},
                                       {64, 256},
                                       {128, 64},
                                       {64, 128},
                                       {64, 64},
                                       {256, 32},
                                       {128, 32},
                                       {32, 128},
                                       {32, 256}}};

// std::ceil for sizes far below 2^53, without the call: this loop is the hot path of a sweep.
double ceiling(double v) {
  const auto whole = static_cast<double>(static_cast<std::int64_t>(v));
  return whole < v ? whole + 1 : whole;
}

double compute_seconds(const GemmShape& s, const GemmConstants& c, const GemmRates& rates) {
  const double peak = rates.peak.value();
  if (c.formula == GemmFormula::tile_wave)
    return tiled(s, {c.tile_penalty, c.wave_quantisation, c.k_prologue, peak / rates.sms, rates.sms}).seconds;
  return gemm_flops(s).value() * (1.0 + c.k_prologue / s.k) / peak;
}

double burst_speedup(const GemmShape& s, const GemmStorage& storage, const GemmConstants& c, const GemmRates& rates) {
  const double gain = storage.zeros ? c.burst_gain_zeros : c.burst_gain;
  if (gain <= 0 || c.burst.value() <= 0) return 1;
  return 1 + gain * std::exp(-gemm_flops(s).value() / (c.efficiency * rates.peak.value()) / c.burst.value());
}

}  // namespace

std::string_view name_of(GemmFormula f) { return f == GemmFormula::tile_wave ? "tile_wave" : "soft_roofline"; }

GemmFormula parse_gemm_formula(std::string_view name) {
  for (auto f : {GemmFormula::soft_roofline, GemmFormula::tile_wave})
    if (name == name_of(f)) return f;
  throw Error(ErrorKind::usage, "unknown GEMM formula '" + std::string(name) + "'", {},
              "use soft_roofline or tile_wave");
}

TiledProduct tiled(const GemmShape& s, const TileRates& rates) {
  TiledProduct best{std::numeric_limits<double>::infinity(), 1};
  for (std::size_t i = 0; i < kTiles.size(); ++i) {
    if ((rates.tiles >> i) % 2 == 0) continue;
    const auto [x, y] = kTiles[i];
    const double tiles = ceiling(s.m / x) * ceiling(s.n / y) * s.batch;
    const double pieces =
        rates.shortest_depth > 0 ? std::max(1.0, std::min(rates.sms / tiles, s.k / rates.shortest_depth)) : 1.0;
    const double w = tiles * pieces / rates.sms;
    const double waves = std::max(1.0, w + rates.wave_quantisation * (ceiling(w) - w));
    const double penalty = 1.0 + rates.penalty * (1.0 / x + 1.0 / y - 1.0 / 128 - 1.0 / 256);
    if (const double v = waves * x * y * penalty * (s.k / pieces + rates.prologue); v < best.seconds)
      best = {v, pieces};
  }
  best.seconds *= 2.0 / rates.peak_per_sm;
  return best;
}

Flops gemm_flops(const GemmShape& s) { return Flops{2.0 * s.batch * s.m * s.n * s.k}; }

Bytes gemm_bytes(const GemmShape& s, const GemmStorage& storage) {
  const double inputs = (s.m + s.n) * s.k * storage.in;
  const double output = s.m * s.n * storage.out * (storage.accumulate ? 2.0 : 1.0);
  return Bytes{s.batch * (inputs + output)};
}

GemmTime gemm_time(const GemmShape& s, Bytes traffic, const GemmStorage& storage, const GemmConstants& c,
                   const GemmRates& rates, double slowdown) {
  const double level = storage.accumulate ? c.efficiency * c.accumulate_factor : c.efficiency;
  const double efficiency = level * burst_speedup(s, storage, c, rates);
  const double compute = compute_seconds(s, c, rates) * slowdown / efficiency;
  const double memory = traffic.value() / (c.bandwidth_fraction * rates.hbm.value());
  const double high = std::max(compute, memory);
  GemmTime t{Seconds{compute}, Seconds{memory}, c.fixed, c.fixed, 0, 0};
  if (high <= 0) return t;
  const double low_term = std::pow(std::min(compute, memory) / high, c.overlap_power);
  const double body = high * std::pow(1.0 + low_term, 1.0 / c.overlap_power);
  t.total = c.fixed + Seconds{body};
  const double dominant = 1.0 / (1.0 + low_term);
  const double moving = body / t.total.value();
  t.compute_share = moving * (compute >= memory ? dominant : 1.0 - dominant);
  t.memory_share = moving - t.compute_share;
  return t;
}

GemmTime gemm_time(const GemmShape& s, const GemmStorage& storage, const GemmConstants& c, const GemmRates& rates,
                   double slowdown) {
  return gemm_time(s, gemm_bytes(s, storage), storage, c, rates, slowdown);
}

double gemm_waves(const GemmShape& s, int sms) { return std::ceil(s.m / 128) * std::ceil(s.n / 256) * s.batch / sms; }

}  // namespace rehearse
