#include <cmath>
#include <deque>
#include <random>
#include <tuple>

#include "core/base/error.hpp"
#include "core/plan/reliability.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;

namespace {

const std::string kReliabilityFolder = rehearse::testing::source_path("topologies/reliability");
constexpr double kReliabilityHour = 3600;

/// Runs that are played, as long as 20,000 failures: nothing of the formulas is in it.
class Failures {
 public:
  explicit Failures(unsigned seed) : random_(seed) {}

  /// Useful time over all: segments of work and a write; a failure in either loses both, and a restart takes its time
  /// unless that fails too.
  double efficiency(Seconds interval, Seconds write, Seconds restart, Seconds mtbf) {
    double now = 0, useful = 0, next = until(mtbf);
    const double segment = (interval + write).value();
    for (int failures = 0; failures < kFailures;) {
      const auto whole = std::floor((next - now) / segment);  // Segments that are finished before the next failure.
      useful += whole * interval.value();
      now = next;
      for (++failures;; ++failures) {
        next = now + until(mtbf);
        if (next - now >= restart.value()) break;
        now = next;
      }
      now += restart.value();
    }
    return useful / now;
  }

  struct Outage {
    double enough = 0, left = 0;  ///< Shares of the time, and of the machines.
  };
  /// Machines break one by one, and each is back after a repair of length 1.
  Outage outage(double expected, double machines, int spares) {
    Outage out;
    std::deque<double> back;  // When those that are out return, first to last.
    double now = 0, next = until(Seconds{1 / expected});
    for (int failures = 0; failures < 3 * kFailures;) {
      const bool returns = !back.empty() && back.front() < next;
      const double then = returns ? back.front() : next;
      const double missing = std::max(0.0, static_cast<double>(back.size()) - spares);
      out.enough += missing == 0 ? then - now : 0;
      out.left += (then - now) * std::max(0.0, 1 - missing / machines);
      now = then;
      if (returns) {
        back.pop_front();
        continue;
      }
      back.push_back(now + 1);
      next = now + until(Seconds{1 / expected});
      ++failures;
    }
    return {out.enough / now, out.left / now};
  }

  /// All at once without spares: training stops at every failure; where a machine `broke` it waits until all are back;
  /// then it restarts from the last checkpoint. Other failures, once in g.mtbf less those, only restart it.
  double together(const Goodput& g, const ReliabilitySettings& s, Seconds broke) {
    const double segment = (g.interval + g.write).value(), restart = (s.restart + g.write).value();
    const Seconds other{1 / (1 / g.mtbf.value() - 1 / broke.value())};
    double now = 0, useful = 0, hardware = until(broke), software = until(other), back = 0, ready = 0;
    for (int failures = 0; failures < kFailures; ++failures) {
      const double next = std::min(hardware, software);
      if (next > ready) useful += std::floor((next - ready) / segment) * g.interval.value();
      now = next;
      if (hardware <= software) {
        back = now + s.repair.value();
        hardware = now + until(broke);
      } else {
        software = now + until(other);
      }
      ready = std::max(back, now) + restart;
    }
    return useful / now;
  }

 private:
  static constexpr int kFailures = 20000;
  double until(Seconds mean) { return -mean.value() * std::log((static_cast<double>(random_()) + 0.5) / 4294967296.0); }
  std::mt19937 random_;
};
using Outage = Failures::Outage;

}  // namespace

TEST_CASE("Llama 3's cluster breaks as often as its report says") {
  const ReliabilityProfile p = load_reliability(kReliabilityFolder, "hopper");
  const Seconds mtbf = run_mtbf(p.times, {16384, 16384, 2048});
  // 419 unexpected interruptions in 54 days.
  CHECK(54 * 24 * kReliabilityHour / mtbf.value() == Approx(419).epsilon(0.01));
}

TEST_CASE("failures grow with the number of parts, and nothing that breaks never breaks") {
  const ReliabilityProfile p = load_reliability(kReliabilityFolder, "hopper");
  const Seconds one = run_mtbf(p.times, {8, 8, 1});
  CHECK(run_mtbf(p.times, {800, 800, 100}).value() == Approx(one.value() / 100));
  CHECK(std::isinf(run_mtbf(FailureTimes{}, {8, 8, 1}).value()));
  CHECK(load_reliability(kReliabilityFolder, "an unknown generation").times[Part::gpu] > Seconds{0});
}

TEST_CASE("the checkpoint interval is Young's for short writes and Daly's for long ones") {
  const Seconds mtbf{10 * kReliabilityHour};
  CHECK(checkpoint_interval(Seconds{1}, mtbf).value() == Approx(std::sqrt(2 * 1 * mtbf.value())).epsilon(0.01));
  // Daly 2006: the write time grows beyond twice the MTBF, and the interval stays at the MTBF.
  CHECK(checkpoint_interval(3 * mtbf, mtbf) == mtbf);
  CHECK(checkpoint_interval(Seconds{0}, mtbf) == Seconds{0});
  CHECK(std::isinf(checkpoint_interval(Seconds{60}, Seconds{INFINITY}).value()));
}

TEST_CASE("no interval loses less than the one proposed") {
  for (const double write : {5.0, 60.0, 600.0, 3000.0})
    for (const double hours : {0.5, 3.0, 100.0}) {
      const Seconds d{write}, m{hours * kReliabilityHour}, best = checkpoint_interval(d, m);
      const double at_best = checkpoint_efficiency(best, d, Seconds{300}, m);
      double optimum = 0;
      for (double t = 0.02; t < 50; t *= 1.02)
        optimum = std::max(optimum, checkpoint_efficiency(t * best, d, Seconds{300}, m));
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
  CHECK(checkpoint_efficiency(Seconds{990}, Seconds{10}, Seconds{100}, Seconds{m}) ==
        Approx(0.99 * (1 - (500 + 100) / m)).epsilon(1e-5));
  CHECK(checkpoint_efficiency(Seconds{0}, Seconds{0}, Seconds{100}, Seconds{1000}) == Approx(std::exp(-0.1)));
  CHECK(checkpoint_efficiency(Seconds{INFINITY}, Seconds{10}, Seconds{100}, Seconds{INFINITY}) == 1);
}

TEST_CASE("the slowest of many ranks sets the pace") {
  CHECK(straggler_factor(0.01, 1) == 1);
  CHECK(straggler_factor(0, 10000) == 1);
  // Expected maximum of 100 and of 1000 normal values: 2.508 and 3.241 standard deviations (tables of order
  // statistics); Blom's formula is within 1 %.
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
  GoodputRequest r{load_reliability(kReliabilityFolder, "hopper").times, {1024, 1024, 128}, 2, false, Bytes{1e12}};
  const Goodput g = goodput(s, r);
  CHECK(g.total == Approx(g.stragglers * g.checkpoints * g.spares));
  CHECK(g.write.value() == Approx(1e12 / (128 * s.checkpoint_bandwidth.value())));
  CHECK(g.interruptions_per_day == Approx(24 * kReliabilityHour / g.mtbf.value()));
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

TEST_CASE("a run played failure by failure is as far as the formulas say") {
  for (const double write : {5.0, 120.0, 900.0})
    for (const double hours : {1.0, 6.0, 200.0}) {
      const Seconds d{write}, m{hours * kReliabilityHour}, restart{600}, best = checkpoint_interval(d, m);
      INFO(write << " s of " << hours << " h");
      const double at_best = Failures(7).efficiency(best, d, restart, m);
      CHECK(at_best == Approx(checkpoint_efficiency(best, d, restart, m)).epsilon(0.01));
      // No other interval is better but by the noise of 20,000 failures.
      for (const double factor : {0.4, 2.5})
        CHECK(Failures(8).efficiency(factor * best, d, restart, m) < at_best + 0.01);
    }
}

TEST_CASE("machines out for repair, played, leave as many as Poisson says") {
  // A row of three racks of 72 GPUs as the Llama 3 fleet would break, and DGX H100 enough for 13 racks' GPUs.
  const FailureTimes times = load_reliability(kReliabilityFolder, "hopper").times;
  const Seconds repair{86400};
  for (const auto& [counts, machines, spares] : {std::tuple{PartCounts{216, 216, 54}, 3, 0},
                                                 {PartCounts{216, 216, 54}, 3, 1},
                                                 {PartCounts{936, 936, 117}, 117, 2},
                                                 {PartCounts{8192, 8192, 1024}, 1024, 6}}) {
    const double expected = machines_in_repair(times, counts, repair);
    INFO(machines << " machines, " << spares << " spare, " << expected << " out");
    const Outage played = Failures(9).outage(expected, machines, spares);
    CHECK(played.enough == Approx(spares_suffice(expected, spares)).margin(0.01));
    CHECK(played.left == Approx(share_left(expected, machines, spares)).margin(0.01));
  }
}

TEST_CASE("the product of the parts is what failures, restarts and repairs leave together") {
  // Three racks without spares, where waiting weighs most: a failure of a GPU, NIC or host stops the run until its rack
  // is back.
  ReliabilitySettings s;
  s.jitter = 0;
  const GoodputRequest r{load_reliability(kReliabilityFolder, "hopper").times, {216, 216, 54}, 0, false, Bytes{1e12}};
  const Goodput g = goodput(s, r);
  const Seconds broken{s.repair / machines_in_repair(r.times, r.counts, s.repair)};
  CHECK(Failures(10).together(g, s, broken) == Approx(g.total).margin(0.01));
  CHECK(g.total == Approx(0.91).margin(0.02));
  s.shrink = true;
  CHECK(goodput(s, r).total > g.total + 0.05);
}

TEST_CASE("going on with fewer machines loses those that are out, no more") {
  CHECK(share_left(0, 10, 0) == 1);
  CHECK(share_left(0.01, 100, 0) == Approx(1 - 0.01 / 100).epsilon(1e-6));
  CHECK(share_left(0.5, 4, 2) > share_left(0.5, 4, 0));
  CHECK(share_left(600, 2, 0) == Approx(0).margin(1e-9));
}

TEST_CASE("fleets of several kinds break as often as their parts do") {
  const ReliabilityProfile h100 = load_reliability(kReliabilityFolder, "hopper"),
                           a100 = load_reliability(kReliabilityFolder, "ampere");
  const PartCounts some{64, 64, 8}, more{128, 128, 16};
  const ReliabilityProfile both = joined_reliability({{h100, some}, {a100, more}});
  // Storage counts once per run, and neither profile has it.
  CHECK(1 / run_mtbf(both.times, {192, 192, 24}).value() ==
        Approx(1 / run_mtbf(h100.times, some).value() + 1 / run_mtbf(a100.times, more).value()));
  CHECK(joined_reliability({{h100, some}}).times.of == h100.times.of);
  CHECK(both.name.find(a100.name) != std::string::npos);
}

TEST_CASE("GPUs of which no fleet is published are given the rates of Llama 3's") {
  CHECK(load_reliability(kReliabilityFolder, "fallback").times.of ==
        load_reliability(kReliabilityFolder, "hopper").times.of);
}

TEST_CASE("a profile that there is not is refused with the nearest name") {
  CHECK(named_reliability(kReliabilityFolder, "ampere").times[Part::host] ==
        load_reliability(kReliabilityFolder, "ampere").times[Part::host]);
  try {
    (void)named_reliability(kReliabilityFolder, "hoper");
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
