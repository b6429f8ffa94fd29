#include "core/play/clocks/analytic_clock.hpp"

#include <limits>
#include <stdexcept>

#include "tests/support/catch.hpp"
#include "tests/support/recorder.hpp"
#include "tests/support/small_cluster.hpp"

using namespace rehearse;
using namespace rehearse::testing;

namespace {
constexpr BytesPerSecond kUncapped{std::numeric_limits<double>::infinity()};
}

TEST_CASE("timers fire at their date, equal dates in the order they were set") {
  const auto cluster = small_cluster(1);
  AnalyticClock clock(cluster);
  Recorder recorder(clock);
  clock.set_timer(Seconds{2}, 3);
  clock.set_timer(Seconds{1}, 1);
  clock.set_timer(Seconds{1}, 2);
  clock.run(recorder);
  CHECK(recorder.log == std::vector<Recorder::Entry>{{1, false, 1}, {1, false, 2}, {2, false, 3}});
}

TEST_CASE("a timer in the past fires now") {
  const auto cluster = small_cluster(1);
  AnalyticClock clock(cluster);
  Recorder recorder(clock);
  recorder.actions[1] = [&] { clock.set_timer(Seconds{1}, 2); };
  clock.set_timer(Seconds{5}, 1);
  clock.run(recorder);
  CHECK(recorder.time_of(2) == 5);
}

TEST_CASE("a cancelled timer is forgotten") {
  const auto cluster = small_cluster(1);
  AnalyticClock clock(cluster);
  Recorder recorder(clock);
  const auto id = clock.set_timer(Seconds{3}, 1);
  recorder.actions[2] = [&] { clock.cancel_timer(id); };
  clock.set_timer(Seconds{1}, 2);
  clock.run(recorder);
  CHECK(recorder.tokens() == std::vector<PlayClock::Token>{2});
  CHECK(clock.now().value() == 1);
}

TEST_CASE("a flow takes bytes / min(cap, slowest link) and shares with no other") {
  const auto cluster = small_cluster(2);
  AnalyticClock clock(cluster);
  Recorder recorder(clock);
  clock.start_flow(0, 8, Bytes{1e9}, kUncapped, 1, 0, 1);
  clock.start_flow(0, 8, Bytes{1e9}, BytesPerSecond{5e9}, 1, 0, 2);
  clock.start_flow(0, 1, Bytes{1e9}, BytesPerSecond{1e12}, 1, 0, 3);
  clock.run(recorder);
  CHECK(recorder.time_of(1) == 1e9 / 10e9);
  CHECK(recorder.time_of(2) == 1e9 / 5e9);
  CHECK(recorder.time_of(3) == 1e9 / kNvlink);
}

TEST_CASE("lanes share the links they have in common") {
  const auto cluster = small_cluster(2, {8, 2});
  AnalyticClock clock(cluster);
  Recorder recorder(clock);
  clock.start_flow(0, 8, Bytes{1e9}, kUncapped, 8, 1, 1);
  clock.run(recorder);
  CHECK(recorder.time_of(1) == Approx(4 * 1e9 / 10e9).epsilon(1e-15));
}

TEST_CASE("every link is charged the bytes of each lane that crossed it, once they have") {
  const auto cluster = small_cluster(2, {8, 2});
  AnalyticClock clock(cluster);
  Recorder recorder(clock);
  const auto nic = static_cast<std::size_t>(cluster.route(0, 8).links.at(1));
  recorder.actions[7] = [&] { CHECK(clock.link_bytes()[nic] == 0); };
  clock.set_timer(Seconds{0.01}, 7);
  clock.start_flow(0, 8, Bytes{1e9}, kUncapped, 8, 1, 1);
  clock.run(recorder);
  double total = 0;
  for (double bytes : clock.link_bytes()) total += bytes;
  CHECK(total == Approx(8e9 * static_cast<double>(cluster.route(0, 8).links.size())));
  CHECK(clock.link_bytes()[nic] == 4e9);
}

TEST_CASE("flows without bytes or rate are refused") {
  const auto cluster = small_cluster(1);
  AnalyticClock clock(cluster);
  CHECK_THROWS_AS(clock.start_flow(0, 1, Bytes{0}, kUncapped, 1, 0, 1), std::logic_error);
  CHECK_THROWS_AS(clock.start_flow(0, 1, Bytes{1}, BytesPerSecond{0}, 1, 0, 1), std::logic_error);
}
