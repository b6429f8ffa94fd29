// Loops that several threads share.

#include <atomic>
#include <cstdint>
#include <random>
#include <tuple>
#include <vector>

#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/team.hpp"
#include "tests/support/catch.hpp"

namespace rehearse {
namespace {

/// Three threads while a test runs.
struct TeamOfThree {
  TeamOfThree() { set_team(3); }
  ~TeamOfThree() { set_team(1); }
};

}  // namespace

TEST_CASE("every piece of a shared loop is done once") {
  const TeamOfThree team;
  CHECK(team_size() == 3);
  for (const std::int64_t n : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> done(static_cast<std::size_t>(n));
    for (int again = 0; again < 200; ++again)
      share(n, 2, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) ++done[static_cast<std::size_t>(i)];
      });
    for (const std::atomic<int>& d : done) REQUIRE(d == 200);
  }
}

TEST_CASE("a loop inside a shared loop is one part") {
  const TeamOfThree team;
  std::atomic<int> parts{0}, outer{0};
  share(6, 1, [&](std::int64_t first, std::int64_t last) {
    outer += static_cast<int>(last - first);
    share(100, 1, [&](std::int64_t, std::int64_t) { ++parts; });
  });
  CHECK(outer == 6);
  CHECK(parts <= 9);
}

TEST_CASE("a product that threads share is the plain loop's") {
  const TeamOfThree team;
  std::mt19937 random(5);
  std::uniform_real_distribution<double> number(-1, 1);
  for (const auto& [m, n, k] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{300, 70, 90}, {65, 333, 128}})
    for (const bool turned : {false, true}) {
      std::vector<double> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n)),
          c(static_cast<std::size_t>(m * n), 1.0), wanted = c;
      for (auto* of : {&a, &b})
        for (double& x : *of) x = number(random);
      const MatrixView<double> left{a.data(), turned ? m : k, turned}, right{b.data(), turned ? k : n, turned};
      gemm<double>(m, n, k, 2, left, right, 0.5, c.data(), n);
      reference_gemm<double>(m, n, k, 2, left, right, 0.5, wanted.data(), n);
      for (std::size_t i = 0; i < c.size(); ++i) REQUIRE(c[i] == Approx(wanted[i]).margin(1e-11));
    }
}

}  // namespace rehearse
