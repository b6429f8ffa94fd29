// Interpolation of measured times: exact at the points, between its neighbours elsewhere, and as work grows beyond
// them.

#include <cmath>
#include <limits>
#include <random>

#include "core/base/error.hpp"
#include "core/price/kernels/log_grid.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

using Points = std::vector<LogGrid::Point>;

double at(const LogGrid& g, std::vector<double> x) { return g(x); }
bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); }

/// Times that rise along every axis, drawn at random.
Points rising(std::mt19937& draw, const std::vector<double>& a, const std::vector<double>& b) {
  std::uniform_real_distribution<double> factor(1.0, 4.0);
  Points out;
  std::vector<double> row(b.size(), 1.0);
  for (const double x : a) {
    double least = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      least = row[j] = std::max(least, row[j]) * factor(draw);
      out.push_back({{x, b[j]}, row[j]});
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a grid is exact at its points, and rises between them where they rise") {
  std::mt19937 draw(7);
  const std::vector<double> a{2, 10, 70, 900}, b{1, 16, 40};
  std::uniform_real_distribution<double> coordinate(std::log(2.0), std::log(900.0)),
      other(std::log(1.0), std::log(40.0));
  for (int round = 0; round < 50; ++round) {
    const Points points = rising(draw, a, b);
    const LogGrid grid(2, points);
    for (const auto& p : points) CHECK(near(grid(p.at), p.value));
    for (int i = 0; i < 40; ++i) {
      const double x = std::exp(coordinate(draw)), y = std::exp(other(draw)), more = std::exp(coordinate(draw));
      CHECK(at(grid, {std::max(x, more), y}) >= at(grid, {std::min(x, more), y}) * (1 - 1e-12));
    }
  }
}

TEST_CASE("times that are powers of the sizes are met everywhere between the points") {
  const auto law = [](double m, double n, double k) { return 3e-9 * std::pow(m, 0.9) * n * std::pow(k, 0.5); };
  Points points;
  for (const double m : {8, 64, 1024})
    for (const double n : {16, 256})
      for (const double k : {4, 4096}) points.push_back({{m, n, k}, law(m, n, k)});
  const LogGrid grid(3, points);
  for (const double m : {9, 300, 1000})
    for (const double n : {17, 100, 255})
      for (const double k : {5, 77, 4000}) CHECK(near(at(grid, {m, n, k}), law(m, n, k)));
}

TEST_CASE("beyond its ends a grid grows with the work and never turns round") {
  const LogGrid grid(1, {{{10}, 1.0}, {{100}, 1.2}, {{1000}, 9.0}});
  CHECK(near(at(grid, {5000}), 45.0));
  CHECK(at(grid, {1}) < 1.0);
  CHECK(at(grid, {1}) > 0.1);
  const LogGrid falling(1, {{{10}, 2.0}, {{100}, 1.0}});
  CHECK(near(at(falling, {1}), 2.0));
  const LogGrid steep(1, {{{10}, 1.0}, {{20}, 100.0}});
  CHECK(near(at(steep, {5}), 0.5));
  const LogGrid one(2, {{{10, 10}, 4.0}});
  CHECK(near(at(one, {20, 5}), 4.0));
}

TEST_CASE("a crossing that was not measured is the nearest that was, scaled by work") {
  const LogGrid grid(2, {{{1, 1}, 1.0}, {{10, 1}, 7.0}, {{1, 10}, 5.0}, {{10, 100}, 300.0}});
  CHECK(near(at(grid, {10, 10}), 50.0 * 7.0 / 7.0));  // From (1, 10): ten times the work.
}

TEST_CASE("several measurements at one place are their mean") {
  CHECK(near(at(LogGrid(1, {{{8}, 1.0}, {{8}, 3.0}}), {8}), 2.0));
}

TEST_CASE("a grid refuses what no measurement can be") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(LogGrid(1, {}), Error);
  CHECK_THROWS_AS(LogGrid(2, {{{1}, 1.0}}), Error);
  for (const double bad : {0.0, -1.0, inf, nan}) {
    CHECK_THROWS_AS(LogGrid(1, {{{bad}, 1.0}}), Error);
    CHECK_THROWS_AS(LogGrid(1, {{{1}, bad}}), Error);
  }
}
