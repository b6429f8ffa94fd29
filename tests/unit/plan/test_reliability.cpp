#include <cmath>

#include "core/plan/reliability.hpp"
#include "core/units/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;

namespace {

const std::string kFolder = rehearse::testing::source_path("topologies/reliability");
constexpr double kHour = 3600;

}  // namespace

TEST_CASE("Llama 3's cluster breaks as often as its report says") {
  const ReliabilityProfile p = load_reliability(kFolder, "hopper");
  const Seconds mtbf = run_mtbf(p.times, {16384, 16384, 2048});
  // 419 unexpected interruptions in 54 days.
  CHECK(54 * 24 * kHour / mtbf.value() == Approx(419).epsilon(0.01));
}

TEST_CASE("failures grow with the number of parts, and nothing that breaks never breaks") {
  const ReliabilityProfile p = load_reliability(kFolder, "hopper");
  const Seconds one = run_mtbf(p.times, {8, 8, 1});
  CHECK(run_mtbf(p.times, {800, 800, 100}).value() == Approx(one.value() / 100));
  CHECK(std::isinf(run_mtbf(FailureTimes{}, {8, 8, 1}).value()));
  CHECK(load_reliability(kFolder, "an unknown generation").times[Part::gpu] > Seconds{0});
}

TEST_CASE("the checkpoint interval is Young's for short writes and Daly's for long ones") {
  const Seconds mtbf{10 * kHour};
  CHECK(checkpoint_interval(Seconds{1}, mtbf).value() == Approx(std::sqrt(2 * 1 * mtbf.value())).epsilon(0.01));
  // Daly 2006: the write time grows beyond twice the MTBF, and the interval stays at the MTBF.
  CHECK(checkpoint_interval(3 * mtbf, mtbf) == mtbf);
  CHECK(checkpoint_interval(Seconds{0}, mtbf) == Seconds{0});
  CHECK(std::isinf(checkpoint_interval(Seconds{60}, Seconds{INFINITY}).value()));
}

TEST_CASE("no interval loses less than the one proposed") {
  for (const double write : {5.0, 60.0, 600.0, 3000.0})
    for (const double hours : {0.5, 3.0, 100.0}) {
      const Seconds d{write}, m{hours * kHour}, best = checkpoint_interval(d, m);
      const double at_best = checkpoint_efficiency(best, d, Seconds{300}, m);
      double optimum = 0;
      for (double t = 0.02; t < 50; t *= 1.02) optimum = std::max(optimum, checkpoint_efficiency(t * best, d, Seconds{300}, m));
      INFO(write << " s of " << hours << " h");
      CHECK(at_best == Approx(optimum).epsilon(0.01));
      CHECK(at_best > 0);
      CHECK(at_best < 1);
    }
}

TEST_CASE("efficiency tends to what can be told without the formula") {
  // Rare failures: only the writes are lost.
  CHECK(checkpoint_efficiency(Seconds{990}, Seconds{10}, Seconds{0}, Seconds{1e12}) == Approx(0.99).epsilon(1e-6));
  // First order: half an interval and a restart for each failure.
  const double m = 1e6;
  CHECK(checkpoint_efficiency(Seconds{990}, Seconds{10}, Seconds{100}, Seconds{m}) == Approx(0.99 * (1 - (500 + 100) / m)).epsilon(1e-5));
  CHECK(checkpoint_efficiency(Seconds{0}, Seconds{0}, Seconds{100}, Seconds{1000}) == Approx(std::exp(-0.1)));
  CHECK(checkpoint_efficiency(Seconds{INFINITY}, Seconds{10}, Seconds{100}, Seconds{INFINITY}) == 1);
}

TEST_CASE("the slowest of many ranks sets the pace") {
  CHECK(straggler_factor(0.01, 1) == 1);
  CHECK(straggler_factor(0, 10000) == 1);
  // Expected maximum of 100 and of 1000 normal values: 2.508 and 3.241 standard deviations (tables of order statistics); Blom's formula is within 1 %.
  CHECK(straggler_factor(0.01, 100) - 1 == Approx(0.02508).epsilon(0.01));
  CHECK(straggler_factor(0.01, 1000) - 1 == Approx(0.03241).epsilon(0.01));
}

TEST_CASE("spares suffice as Poisson says, by its sum and by its normal form") {
  CHECK(spares_suffice(0, 0) == 1);
  CHECK(spares_suffice(0.5, 0) == Approx(std::exp(-0.5)));
  CHECK(spares_suffice(0.5, 1) == Approx(1.5 * std::exp(-0.5)));
  CHECK(spares_suffice(500.1, 540) == Approx(spares_suffice(499.9, 540)).margin(0.01));
}

TEST_CASE("no other number of spares costs less machine time") {
  for (const double expected : {0.0, 0.1, 0.8, 2.0, 30.0, 499.0, 600.0})
    for (const int machines : {1, 3, 100, 5000}) {
      const int n = cheapest_spares(expected, machines);
      const auto cost = [&](int spares) { return (machines + spares) / spares_suffice(expected, spares); };
      INFO(expected << " out of " << machines);
      for (int other = 0; other < 800; ++other) CHECK(cost(n) <= cost(other) * (1 + 1e-9));
    }
  CHECK(cheapest_spares(0.09, 3) == 0);
  CHECK(cheapest_spares(0.8, 117) == 3);
}

TEST_CASE("goodput is the product of its parts, and each part costs something") {
  ReliabilitySettings s;
  GoodputRequest r{load_reliability(kFolder, "hopper").times, {1024, 1024, 128}, 2, false, Bytes{1e12}};
  const Goodput g = goodput(s, r);
  CHECK(g.total == Approx(g.stragglers * g.checkpoints * g.spares));
  CHECK(g.write.value() == Approx(1e12 / (128 * s.checkpoint_bandwidth.value())));
  CHECK(g.interruptions_per_day == Approx(24 * kHour / g.mtbf.value()));
  for (const double part : {g.stragglers, g.checkpoints, g.spares}) CHECK((part > 0.9 && part < 1));

  SECTION("twice the parts, less goodput") {
    r.counts = {2048, 2048, 256};
    CHECK(goodput(s, r).total < g.total);
  }
  SECTION("writes beside training cost less") {
    s.checkpoint_blocking = 0.1;
    CHECK(goodput(s, r).checkpoints > g.checkpoints);
  }
  SECTION("an interval of one's own is not better") {
    s.checkpoint_interval = Seconds{20};
    CHECK(goodput(s, r).checkpoints < g.checkpoints);
    CHECK(goodput(s, r).interval == Seconds{20});
  }
  SECTION("a provider replaces machines") {
    r.replaced = true;
    CHECK(goodput(s, r).spares == 1);
  }
}

TEST_CASE("a profile that there is not is refused with the nearest name") {
  CHECK(named_reliability(kFolder, "ampere").times[Part::host] == load_reliability(kFolder, "ampere").times[Part::host]);
  try {
    (void)named_reliability(kFolder, "hoper");
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.hint.find("did you mean 'hopper'") != std::string::npos);
  }
}

TEST_CASE("a profile with what nobody knows is refused with its place") {
  try {
    (void)load_reliability(rehearse::testing::source_path("tests/unit/plan/bad"), "no_source");
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.where.find("/mtbf") != std::string::npos);
    CHECK(std::string(e.what()).find("source") != std::string::npos);
  }
}
