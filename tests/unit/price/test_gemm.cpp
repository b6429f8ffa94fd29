#include <cmath>

#include "core/base/error.hpp"
#include "core/price/kernels/kernel_gemm.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

const GemmRates kRates{FlopsPerSecond{100e12}, BytesPerSecond{1e12}, 100};

// Whole waves, no fixed time, memory out of the way.
GemmConstants staircase() {
  GemmConstants c;
  c.formula = GemmFormula::tile_wave;
  c.efficiency = 1;
  c.bandwidth_fraction = 1;
  c.overlap_power = 20;
  c.wave_quantisation = 1;
  c.tile_penalty = 1000;  // large enough that the largest tiles win
  return c;
}

double compute(const GemmShape& s, const GemmConstants& c) { return gemm_time(s, {}, c, kRates).compute.value(); }

}  // namespace

TEST_CASE("a kernel shorter than the power limit's reaction gains, one of zeros more, a long one nothing") {
  GemmConstants c;
  c.efficiency = 0.5;
  c.bandwidth_fraction = 1;
  c.overlap_power = 20;
  const GemmShape brief{1, 1024, 1024, 1024}, lengthy{1, 65536, 65536, 65536};
  const auto compute_of = [&](const GemmShape& s, bool zeros) {
    return gemm_time(s, {2, 2, false, zeros}, c, kRates).compute.value();
  };
  const double plain = compute_of(brief, false), plain_long = compute_of(lengthy, false);
  c.burst_gain = 0.2;
  c.burst_gain_zeros = 0.4;
  c.burst = Seconds{1};  // Far longer than the first, far shorter than the second.
  const double reacting = 2.0 * 65536.0 * 65536.0 * 65536.0 / (0.5 * kRates.peak.value());
  CHECK(compute_of(brief, false) == Approx(plain / 1.2).epsilon(0.01));
  CHECK(compute_of(brief, true) == Approx(plain / 1.4).epsilon(0.01));
  CHECK(compute_of(lengthy, true) == Approx(plain_long / (1 + 0.4 * std::exp(-reacting))));
}

TEST_CASE("a product counts two operations per multiply-add and every operand once") {
  const GemmShape s{3, 10, 20, 40};
  CHECK(gemm_flops(s).value() == 2 * 3 * 10 * 20 * 40);
  CHECK(gemm_bytes(s, {2, 4, false}).value() == 3 * ((10 * 40 + 20 * 40) * 2 + 10 * 20 * 4));
  CHECK(gemm_bytes(s, {2, 4, true}).value() - gemm_bytes(s, {2, 4, false}).value() == 3 * 10 * 20 * 4);
}

TEST_CASE("at the ridge the soft roofline takes 2^(1/p) of either limit") {
  GemmConstants c;
  c.efficiency = c.bandwidth_fraction = 1;
  c.overlap_power = 2;
  // compute: 2 * 1000^3 / 100e12 = 20 us; memory made equal through the traffic
  const auto t = gemm_time({1, 1000, 1000, 1000}, Bytes{20e6}, {}, c, kRates);
  CHECK(t.compute.value() == Approx(20e-6));
  CHECK(t.total.value() == Approx(20e-6 * std::sqrt(2.0)));
  CHECK(t.compute_share == Approx(0.5));
  c.overlap_power = 1;
  CHECK(gemm_time({1, 1000, 1000, 1000}, Bytes{20e6}, {}, c, kRates).total.value() == Approx(40e-6));
}

TEST_CASE("shares are the derivatives of time and leave room for the fixed part") {
  for (const auto formula : {GemmFormula::soft_roofline, GemmFormula::tile_wave}) {
    GemmConstants c = staircase();
    c.formula = formula;
    c.overlap_power = 1.7;
    c.fixed = Seconds{5e-6};
    const GemmShape s{1, 512, 768, 320};
    const auto t = gemm_time(s, {}, c, kRates);
    GemmRates faster = kRates;
    faster.peak = faster.peak * 1.0001;
    const double slope = -std::log(gemm_time(s, {}, c, faster).total / t.total) / std::log(1.0001);
    CHECK(t.compute_share == Approx(slope).epsilon(1e-3));
    CHECK(t.compute_share + t.memory_share + t.fixed / t.total == Approx(1.0));
  }
}

TEST_CASE("one tile past a full wave costs a whole wave") {
  const auto c = staircase();
  // 128 x 256 tiles: 100 of them fill 100 SMs once.
  const GemmShape full{1, 1280, 2560, 4096}, past{1, 1281, 2560, 4096};
  CHECK(compute(past, c) == Approx(2 * compute(full, c)));
  auto blurred = c;
  blurred.wave_quantisation = 0;
  CHECK(compute(past, blurred) < 1.2 * compute(full, blurred));
}

TEST_CASE("a product smaller than one wave takes as long as one tile") {
  const auto c = staircase();
  CHECK(compute({1, 256, 256, 4096}, c) == Approx(compute({1, 512, 512, 4096}, c)));
}

TEST_CASE("a full GPU reaches the stated efficiency in both formulas") {
  for (const auto formula : {GemmFormula::soft_roofline, GemmFormula::tile_wave}) {
    auto c = staircase();
    c.formula = formula;
    c.efficiency = 0.75;
    const GemmShape s{1, 128 * 100, 256 * 10, 4096};
    CHECK(gemm_flops(s).value() / compute(s, c) == Approx(0.75 * 100e12));
  }
}

TEST_CASE("more work never takes less time") {
  auto c = staircase();
  c.tile_penalty = 6;
  c.wave_quantisation = 0.5;
  c.k_prologue = 90;
  for (double GemmShape::*side : {&GemmShape::batch, &GemmShape::m, &GemmShape::n, &GemmShape::k}) {
    GemmShape s{4, 100, 100, 100};
    double last = 0;
    for (int i = 0; i < 400; ++i) {
      s.*side = 1 + 17.0 * i;
      const double t = gemm_time(s, {}, c, kRates).total.value();
      CHECK(t >= last);
      last = t;
    }
  }
}

TEST_CASE("the prologue weighs on short k: head dimensions, not hidden sizes") {
  auto c = staircase();
  c.formula = GemmFormula::soft_roofline;
  c.k_prologue = 128;
  const double per_k_short = compute({32, 2048, 2048, 128}, c) / 128;
  const double per_k_long = compute({32, 2048, 2048, 12800}, c) / 12800;
  CHECK(per_k_short / per_k_long == Approx(2.0 / 1.01));
}

TEST_CASE("formula names are checked") {
  CHECK(parse_gemm_formula("tile_wave") == GemmFormula::tile_wave);
  CHECK_THROWS_AS(parse_gemm_formula("tiles"), Error);
}
