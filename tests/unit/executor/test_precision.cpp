// Casts to fp8 round as the formats say; updates that need norms compute what the papers' formulas do.

#include <cmath>

#include "tests/support/catch.hpp"
#include "tests/unit/executor/operator_bench.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

ComputeTask cast(const char* recipe, bool gradient = false, int role = 0, bool columns = false) {
  ComputeTask t = task_of(ComputeOp::quantise, recipe);
  if (gradient)
    t.scalars = {2, -14, 57344, static_cast<double>(role)};
  else
    t.scalars = {3, -6, 448, static_cast<double>(role)};
  t.scalars.push_back(1);
  t.scalars.push_back(columns ? 1 : 0);
  return t;
}

/// By the scale that the step before left.
std::vector<double> delayed(std::vector<double> values, bool gradient = false, double scale = 1) {
  Array state = reals({6}), x = reals({1, static_cast<std::int64_t>(values.size())}), y = x;
  state.real[0] = scale;
  x.real = std::move(values);
  call(cast("delayed", gradient), {inout(state), in(x), out(y)}, {static_cast<std::int64_t>(x.size())});
  return y.real;
}

double rms(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

}  // namespace

TEST_CASE("e4m3: three bits behind the point, 448 at most, 2^-9 at least, ties to even") {
  CHECK(delayed({1.0, 1.0625, 1.1875, 1.125, -3.3, 1e6, 447.0, std::ldexp(1, -9), std::ldexp(1, -11)}) ==
        std::vector<double>{1.0, 1.0, 1.25, 1.125, -3.25, 448.0, 448.0, std::ldexp(1, -9), 0.0});
}

TEST_CASE("e5m2: two bits and a wider range") {
  CHECK(delayed({1.1, 1.2, 5e4, 1e9, std::ldexp(1, -16), std::ldexp(1, -18)}, true) ==
        std::vector<double>{1.0, 1.25, 49152.0, 57344.0, std::ldexp(1, -16), 0.0});
}

TEST_CASE("delayed scaling: this step's largest value makes the next step's scale") {
  Array state = reals({6}), x = reals({1, 3}), y = x;
  x.real = {0.5, -7.0, 3.0};
  call(cast("delayed"), {inout(state), in(x), out(y)}, {3});
  CHECK(state.real[3] == 7.0);
  call(task_of(ComputeOp::quantise, "update_scales"), {inout(state)});
  CHECK(state.real[0] == 448.0 / 7.0);
  CHECK(state.real[3] == 0.0);
  call(cast("delayed"), {inout(state), in(x), out(y)}, {3});
  CHECK(y.real[1] == -7.0);  // The largest is exact.
  CHECK(std::abs(y.real[2] - 3.0) <= 3.0 / 16);
}

TEST_CASE("finer scales keep small numbers beside large ones") {
  Array x = random_reals({128, 256}, 3), y = x, columns = x, amax = reals({1});
  x.real[5] = 1e5;  // An outlier in the first row.
  const auto error = [&](const char* recipe) {
    call(cast(recipe, false, 0, true), {in(x), out(y), out(columns)}, {256});
    double worst = 0;
    for (std::size_t i = 256; i < x.size(); ++i) worst = std::max(worst, std::abs(y.real[i] - x.real[i]));
    return worst;
  };
  call(task_of(ComputeOp::quantise, "amax"), {in(x), out(amax)});
  CHECK(amax.real[0] == 1e5);
  call(cast("tensorwise"), {in(amax), in(x), out(y)}, {256});
  double tensor = 0;
  for (std::size_t i = 256; i < x.size(); ++i) tensor = std::max(tensor, std::abs(y.real[i] - x.real[i]));
  CHECK(tensor > 0.2);  // Below the smallest step that the outlier leaves.
  for (const char* recipe : {"rowwise", "blockwise", "mxfp8"}) {
    INFO(recipe);
    CHECK(error(recipe) < 0.15);  // Half a step of 1/8 at four standard deviations.
    CHECK(columns.real[5] == Approx(1e5).epsilon(1.0 / 16));
  }
}

TEST_CASE("MXFP8 scales by powers of two") {
  Array x = reals({1, 32}), y = x;
  x.real.assign(32, 1.0);
  x.real[0] = 300.0;  // Largest of the block: scale 1, for 2 would exceed 448.
  x.real[1] = 1.0625;
  call(cast("mxfp8"), {in(x), out(y)}, {32});
  CHECK(y.real[1] == 1.0);
  CHECK(y.real[0] == 288.0);
  // By 8 the largest would pass 448 by a bit: the scale is 4, and 2^-12 half the smallest step.
  x.real[0] = std::nextafter(448.0 / 8, 448.0);
  x.real[1] = std::ldexp(1, -12);
  call(cast("mxfp8"), {in(x), out(y)}, {32});
  CHECK(y.real[1] == 0.0);
  CHECK(y.real[0] == 56.0);
}

TEST_CASE("LAMB: the step of a matrix has the parameter's norm times the rate, whatever the gradient's size") {
  for (const double size : {1e-3, 1.0, 1e3}) {
    Array g = random_reals({8, 4}, 1), w = random_reals({8, 4}, 2), m = reals({8, 4}), v = m, norms = reals({2});
    for (double& x : g.real) x *= size;
    const Array before = w;
    ComputeTask t = task_of(ComputeOp::optimizer, "lamb_moments");
    t.scalars = {0.01, 0.0, 0.9, 0.999, 1e-12};
    call(t, {in(g), in(w), inout(m), inout(v), out(norms)});
    t.variant = "lamb";
    call(t, {inout(w), in(m), in(v), in(norms)});
    std::vector<double> step(w.size());
    for (std::size_t i = 0; i < step.size(); ++i) step[i] = w.real[i] - before.real[i];
    CHECK(rms(step) == Approx(0.01 * rms(before.real)));
  }
}

TEST_CASE("LAMB: a vector's step is Adam's") {
  Array g = random_reals({6}, 1), w = random_reals({6}, 2), m = reals({6}), v = m, norms = reals({2}), adam = w, am = m,
        av = v;
  ComputeTask t = task_of(ComputeOp::optimizer, "lamb_moments");
  t.scalars = {0.01, 0.1, 0.9, 0.999, 1e-8};
  call(t, {in(g), in(w), inout(m), inout(v), out(norms)});
  t.variant = "lamb";
  call(t, {inout(w), in(m), in(v), in(norms)});
  t.variant = "adamw";
  call(t, {in(g), inout(adam), inout(am), inout(av)});
  for (std::size_t i = 0; i < w.size(); ++i) CHECK(w.real[i] == Approx(adam.real[i]));
}

namespace {

struct AdafactorRun {
  Array g, w, rows, columns;
  explicit AdafactorRun(Array gradient, std::uint64_t stream = 7)
      : g(std::move(gradient)),
        w(random_reals(g.shape, stream)),
        rows(reals({g.shape[0]})),
        columns(reals({g.shape[1]})) {}
  /// Learning rate 1, no decay; returns the change.
  std::vector<double> step(double clip, std::int64_t number = 0, bool relative = false, bool scale = false) {
    Array size = reals({1}), change = reals({1}), row_sum = rows, column_sum = columns;
    ComputeTask t = task_of(ComputeOp::square_sum, "adafactor");
    t.scalars = {1.0, 0.0, 1e-30, 1e-3, clip, 0.8, relative ? 1.0 : 0.0, scale ? 1.0 : 0.0};
    call(t, {in(g), in(w), out(size), out(row_sum), out(column_sum)}, {}, {}, number);
    t.op = ComputeOp::statistics;
    call(t, {in(g), out(change), in(row_sum), inout(rows), in(column_sum), inout(columns)}, {}, {}, number);
    t.op = ComputeOp::optimizer;
    const Array before = w;
    call(t, {in(g), inout(w), in(size), in(change), in(rows), in(columns)}, {}, {}, number);
    std::vector<double> out(w.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = w.real[i] - before.real[i];
    return out;
  }
};

}  // namespace

TEST_CASE("Adafactor: squares of rank one are factored exactly, so that the first update is the gradient's sign") {
  Array g = reals({3, 4});
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t c = 0; c < 4; ++c)
      g.real[r * 4 + c] = (static_cast<double>(r) + 1) * (static_cast<double>(c) + 2) * ((r + c) % 2 == 0 ? 1 : -1);
  AdafactorRun run(g);
  const auto change = run.step(10.0);
  for (std::size_t i = 0; i < change.size(); ++i) CHECK(change[i] == Approx(g.real[i] > 0 ? -1.0 : 1.0));
  // The state is the means of squares by row and column.
  CHECK(run.rows.real[0] == Approx((4 + 9 + 16 + 25) / 4.0));
  CHECK(run.columns.real[1] == Approx(9 * (1 + 4 + 9) / 3.0));
}

TEST_CASE("Adafactor: an update's root mean square is at most the threshold") {
  AdafactorRun run(random_reals({16, 8}, 4));
  CHECK(rms(run.step(0.5)) == Approx(0.5));
  AdafactorRun loose(random_reals({16, 8}, 4));
  CHECK(rms(loose.step(100.0)) > 0.9);
}

TEST_CASE("Adafactor: relative steps fall as 1/sqrt(t) from 1e-2, in proportion to the parameter") {
  for (const auto& [number, rate] : {std::pair{0, 1e-2}, {999999, 1e-3}}) {
    AdafactorRun run(random_reals({16, 8}, 4));
    const double size = rms(run.w.real);
    CHECK(rms(run.step(1e-3, number, true, true)) == Approx(1e-3 * rate * size));
  }
}
