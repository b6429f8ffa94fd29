// Queues with known waiting times, drawn with fixed seeds.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>

#include "core/plan/reliability.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/fleet/fleets.hpp"

using namespace rehearse;
using namespace rehearse::fleet;

namespace {

/// `count` jobs of one GPU: Poisson arrivals, exponential or fixed times of mean 1.
Fleet queue_of(int servers, double load, int count, bool fixed, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::exponential_distribution<double> gap(load * servers), work(1);
  std::vector<testing::Row> rows;
  double now = 0;
  for (int i = 0; i < count; ++i) rows.push_back({now += gap(draw), fixed ? 1 : work(draw), 1});
  return testing::small_fleet(1, servers, rows, "wait");
}

/// Jobs of one GPU in turns: Poisson arrivals, given how many there are, and sizes of mean 1, at shares 0..1 of `size`
/// that are spread evenly.
Fleet turns_of(double load, int count, const std::function<double(double)>& size, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::uniform_real_distribution<double> moment(0, count / load);
  std::vector<double> arrivals, shares;
  for (int i = 0; i < count; ++i) {
    arrivals.push_back(moment(draw));
    shares.push_back((i + 0.5) / count);
  }
  std::sort(arrivals.begin(), arrivals.end());
  std::shuffle(shares.begin(), shares.end(), draw);
  std::vector<testing::Row> rows;
  for (std::size_t i = 0; i < arrivals.size(); ++i) rows.push_back({arrivals[i], size(shares[i]), 1});
  return testing::small_fleet(1, 1, rows, "preempt", "turns");
}

double mean_wait(const Fleet& f) {
  const FleetResult r = run_fleet(f, {.record = false, .progress = {}, .stop = {}});
  double sum = 0;
  for (const JobResult& j : r.jobs) sum += j.waiting.value();
  return sum / static_cast<double>(r.jobs.size());
}

double mean_of_seeds(int servers, double load, bool fixed) {
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) sum += mean_wait(queue_of(servers, load, 50'000, fixed, seed)) / 4;
  return sum;
}

/// Erlang's C: the mean wait of M/M/c with service of mean 1 (Kleinrock, Queueing Systems I, 1975, 3.5).
double erlang_wait(int c, double load) {
  const double a = load * c;
  double term = 1, sum = 0;
  for (int k = 0; k < c; ++k) sum += term, term *= a / (k + 1);
  const double waits = term / (1 - load) / (sum + term / (1 - load));
  return waits / (c - a);
}

}  // namespace

TEST_CASE("M/M/c waits as Erlang says, within 2 %") {
  for (const auto& [servers, load] : {std::pair{1, 0.5}, {1, 0.7}, {4, 0.7}, {8, 0.8}}) {
    const double expected = erlang_wait(servers, load), got = mean_of_seeds(servers, load, false);
    CAPTURE(servers, load, expected, got);
    CHECK(std::abs(got / expected - 1) < 0.02);
  }
}

TEST_CASE("M/D/1 waits half as long as M/M/1, within 2 %") {
  for (const double load : {0.5, 0.7}) {
    const double expected = load / (2 * (1 - load)), got = mean_of_seeds(1, load, true);  // Pollaczek and Khinchine.
    CAPTURE(load, expected, got);
    CHECK(std::abs(got / expected - 1) < 0.02);
  }
}

TEST_CASE("turns share a GPU as processor sharing does: a job of size x takes x / (1 - load)") {
  // M/G/1 with processor sharing (Kleinrock, Queueing Systems II, 1976, 4.4): the mean time depends on the mean size
  // alone, so it holds for exponential sizes, equal ones and for many small beside few large ones alike.
  constexpr double kSlice = 0.02, kLoad = 0.6, kLarge = 4, kSmall = 0.25;
  const auto exponential = [](double u) { return -std::log(1 - u); };
  const auto equal = [](double) { return 1.0; };
  const auto two = [](double u) { return u < 0.2 ? kLarge : kSmall; };  // Mean 1.
  const std::vector<std::function<double(double)>> sizes{exponential, equal, two};
  for (const auto& size : sizes) {
    std::array<double, 3> work{}, time{};  // By size: below 0.5, below 1.5, above.
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      Fleet f = turns_of(kLoad, 10'000, size, seed);
      f.policy.parameters = {{"turns.slice", kSlice}};
      const FleetResult r = run_fleet(f, {.record = false, .progress = {}, .stop = {}});
      for (std::size_t i = 0; i < f.jobs.size(); ++i) {
        const double x = f.jobs[i].duration.value();
        const std::size_t part = x < 0.5 ? 0 : x < 1.5 ? 1 : 2;
        work.at(part) += x;
        time.at(part) += r.jobs[i].completion(f.jobs[i].arrival).value();
      }
    }
    const double slowdown = 1 / (1 - kLoad);
    const double all = (time[0] + time[1] + time[2]) / (work[0] + work[1] + work[2]);
    CAPTURE(all / slowdown);
    CHECK(std::abs(all / slowdown - 1) < 0.02);
    for (std::size_t part = 0; part < 3; ++part) {
      CAPTURE(part);
      if (work.at(part) > 0) CHECK(std::abs(time.at(part) / work.at(part) / slowdown - 1) < 0.03);
    }
  }
}

TEST_CASE("turns of three jobs, by hand") {
  // 1, 2 and 3 slices of one GPU that arrive together: A, B, C, B, C, C.
  Fleet f = testing::small_fleet(1, 1, {{0, 10, 1}, {0, 20, 1}, {0, 30, 1}}, "preempt", "turns");
  f.policy.parameters = {{"turns.slice", 10}};
  const FleetResult r = run_fleet(f);
  CHECK(testing::ends(r) == std::vector<double>{10, 40, 60});
  CHECK(r.jobs[1].preemptions == 1);
  CHECK(r.jobs[2].preemptions == 1);
}

TEST_CASE("least attained service in small levels shares a GPU as processor sharing does, for equal arrivals") {
  // Three jobs of 10, 20 and 30 s that arrive at once: shared, they end at 30, 50 and 60 s. A level of 10 s each serves
  // them in turn; ends lie within the order of a level.
  Fleet f = testing::small_fleet(1, 1, {{0, 10, 1}, {0, 20, 1}, {0, 30, 1}}, "preempt", "attained_time");
  f.policy.parameters = {{"attained.limit", 10}, {"attained.limit2", 20}};
  CHECK(testing::ends(run_fleet(f)) == std::vector<double>{10, 40, 60});
}

TEST_CASE("shortest remaining time first has the least mean completion time of all orders") {
  Fleet f = queue_of(1, 0.8, 2000, false, 3);
  f.policy.rule = "preempt";
  const auto mean = [&f](const std::string& order) {
    f.policy.order = order;
    const FleetResult r = run_fleet(f);
    double sum = 0;
    for (std::size_t i = 0; i < r.jobs.size(); ++i) sum += r.jobs[i].completion(f.jobs[i].arrival).value();
    return sum;
  };
  const double least = mean("shortest");
  for (const char* order : {"arrival", "attained", "attained_time", "smallest", "priority"}) CHECK(mean(order) > least);
}

TEST_CASE("failures, checkpoints and restarts leave the share of time that Daly's formula says") {
  // Share of the time that is work: checkpoint_efficiency, for failures at exponential times, also in restarts and
  // writes.
  constexpr double kMtbf = 10'000, kRestart = 600;
  for (const auto& [every, write] : {std::pair{600.0, 60.0}, {3'000, 300}, {3'000, 0}, {12'000, 600}}) {
    CAPTURE(every, write);
    double work = 0, time = 0;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      Fleet f = testing::small_fleet(1, 1, {{0, 1e7, 1}});
      f.interruption = {.restart = Seconds{kRestart},
                        .checkpoint = Seconds{every},
                        .start = Seconds{kRestart},
                        .write = Seconds{write}};
      f.failures = {.mtbf = Seconds{kMtbf}, .repair = Seconds{1e-3}, .seed = seed};
      const FleetResult r = run_fleet(f, {.record = false, .progress = {}, .stop = {}});
      work += f.jobs[0].duration.value(), time += r.jobs[0].finished.value();
    }
    const double formula = checkpoint_efficiency(Seconds{every}, Seconds{write}, Seconds{kRestart}, Seconds{kMtbf});
    CHECK(work / time == Approx(formula).epsilon(0.02));
  }
}
