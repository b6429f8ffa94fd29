// Convolutions over tiles of 4 x 4 pixels: what they make, and both gradients, by the definition in double precision.

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/index.hpp"
#include "gpu_backend/cpu/team.hpp"
#include "gpu_backend/cpu/winograd.hpp"
#include "gpu_backend/execute/random.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

std::vector<float> drawn(std::int64_t n, std::uint64_t stream) {
  std::vector<float> out(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(RandomKey(stream).with("test").normal(i));
  return out;
}
std::int64_t numbers(const TileImages& t, const TileImages::Image& image) {
  return t.samples * image.channels * image.height * image.width;
}
std::int64_t weights(const TileImages& t) { return 9 * t.read.channels * t.made.channels; }

/// Calls `f(pixel read, pixel made, made channel, read channel, weight of the window)` for all that meet.
template <class F>
void each_product(const TileImages& t, const F& f) {
  for (std::int64_t b = 0; b < t.samples; ++b)
    for (std::int64_t to = 0; to < t.made.channels; ++to)
      for (std::int64_t from = 0; from < t.read.channels; ++from)
        for (std::int64_t y = 0; y < t.made.height; ++y)
          for (std::int64_t x = 0; x < t.made.width; ++x)
            for (std::int64_t k = 0; k < 9; ++k) {
              const std::int64_t v = y + t.down + k / 3, u = x + t.right + k % 3;
              if (v < 0 || u < 0 || v >= t.read.height || u >= t.read.width) continue;
              f(((b * t.read.channels + from) * t.read.height + v) * t.read.width + u,
                ((b * t.made.channels + to) * t.made.height + y) * t.made.width + x, to, from, k);
            }
}

/// Sums of products as they are, and of their absolute values: rounding is a small part of the latter.
struct Sums {
  std::vector<double> value, size;
  explicit Sums(std::int64_t n) : value(static_cast<std::size_t>(n)), size(value) {}
  void add(std::int64_t at, float a, float b) {
    const double product = static_cast<double>(a) * static_cast<double>(b);
    nth(value, at) += product;
    nth(size, at) += std::abs(product);
  }
  void check(const std::vector<float>& found) const {
    constexpr double kRounding = 2e-6;
    REQUIRE(found.size() == value.size());
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(found[i]) - value[i]) / (1.0 + size[i]));
    CHECK(worst < kRounding);
  }
};

// Even and odd sides, images without padding, with that of "same", and with a halo of one row above and none below.
const std::vector<TileImages> kShapes{{2, {3, 7, 7}, {5, 7, 7}, -1, -1},    {1, {4, 8, 6}, {2, 6, 4}, 0, 0},
                                      {3, {2, 5, 4}, {3, 7, 6}, -2, -2},    {1, {2, 9, 8}, {3, 8, 8}, 0, -1},
                                      {2, {2, 1, 1}, {2, 1, 1}, -1, -1},    {1, {2, 4, 70}, {2, 4, 70}, -1, -1},
                                      {9, {3, 14, 14}, {4, 14, 14}, -1, -1}};

}  // namespace

TEST_CASE("a convolution over tiles is the sum of its windows") {
  for (const TileImages& t : kShapes) {
    const std::vector<float> read = drawn(numbers(t, t.read), 1), w = drawn(weights(t), 2);
    std::vector<float> made(static_cast<std::size_t>(numbers(t, t.made)));
    convolve_tiles(t, read.data(), w.data(), made.data());
    Sums sums(numbers(t, t.made));
    each_product(t, [&](std::int64_t from, std::int64_t to, std::int64_t oc, std::int64_t ic, std::int64_t k) {
      sums.add(to, nth(read, from), nth(w, (oc * t.read.channels + ic) * 9 + k));
    });
    sums.check(made);
  }
}

TEST_CASE("the gradient of its image reads turned windows") {
  for (const TileImages& t : kShapes) {
    const TileImages back{t.samples, t.made, t.read, -t.down - 2, -t.right - 2};
    const std::vector<float> dy = drawn(numbers(t, t.made), 3), w = drawn(weights(t), 2);
    std::vector<float> dx(static_cast<std::size_t>(numbers(t, t.read)));
    convolve_tiles_back(back, dy.data(), w.data(), dx.data());
    Sums sums(numbers(t, t.read));
    each_product(t, [&](std::int64_t from, std::int64_t to, std::int64_t oc, std::int64_t ic, std::int64_t k) {
      sums.add(from, nth(dy, to), nth(w, (oc * t.read.channels + ic) * 9 + k));
    });
    sums.check(dx);
  }
}

TEST_CASE("the gradient of its weights is added") {
  for (const TileImages& t : kShapes) {
    const std::vector<float> read = drawn(numbers(t, t.read), 1), dy = drawn(numbers(t, t.made), 3);
    std::vector<float> dw(static_cast<std::size_t>(weights(t)), 1.0F);
    tiles_weight_gradient(t, read.data(), dy.data(), dw.data());
    Sums sums(weights(t));
    each_product(t, [&](std::int64_t from, std::int64_t to, std::int64_t oc, std::int64_t ic, std::int64_t k) {
      sums.add((oc * t.read.channels + ic) * 9 + k, nth(dy, to), nth(read, from));
    });
    for (float& x : dw) x -= 1.0F;
    sums.check(dw);
  }
}

TEST_CASE("where there is nothing to make, tiles don't pay") {
  CHECK_FALSE(tiles_pay({8, {64, 56, 56}, {64, 0, 56}, -1, -1}));
  CHECK_FALSE(tiles_pay({8, {64, 56, 56}, {64, 56, 0}, -1, -1}));
  CHECK_FALSE(tiles_pay({0, {64, 56, 56}, {64, 56, 56}, -1, -1}));
}

TEST_CASE("threads change no bit of it") {
  const TileImages t{3, {40, 30, 30}, {48, 30, 30}, -1, -1};
  CHECK(tiles_pay(t));
  const std::vector<float> read = drawn(numbers(t, t.read), 1), w = drawn(weights(t), 2);
  std::vector<std::vector<float>> made, dw;
  for (const int threads : {1, 2, 3}) {
    set_team(threads);
    made.emplace_back(static_cast<std::size_t>(numbers(t, t.made)));
    convolve_tiles(t, read.data(), w.data(), made.back().data());
    dw.emplace_back(static_cast<std::size_t>(weights(t)));
    tiles_weight_gradient(t, read.data(), made.back().data(), dw.back().data());
  }
  set_team(1);
  CHECK(made[1] == made[0]);
  CHECK(made[2] == made[0]);
  CHECK(dw[1] == dw[0]);
  CHECK(dw[2] == dw[0]);
}
