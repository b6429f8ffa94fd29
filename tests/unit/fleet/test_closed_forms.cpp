// Queues with known waiting times, drawn with fixed seeds.

#include <cmath>
#include <random>

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
