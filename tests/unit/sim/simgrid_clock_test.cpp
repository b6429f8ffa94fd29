// Order, cancelling, repetition and lifetime.

#include <csignal>
#include <cstdio>
#include <limits>
#include <random>
#include <stdexcept>
#include <thread>

#include <unistd.h>

#include "core/base/error.hpp"
#include "core/play/clocks/analytic_clock.hpp"
#include "sim/simgrid_clock.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/recorder.hpp"
#include "tests/support/small_cluster.hpp"

using namespace rehearse;
using namespace rehearse::testing;
using rehearse::sim::SimGridClock;
using rehearse::sim::Solved;

namespace {

constexpr BytesPerSecond kClockUncapped{std::numeric_limits<double>::infinity()};

/// Chains of flows and timers with pseudo-random sizes over `devices` devices; each event starts the next of its chain.
template <class Clock>
std::vector<Recorder::Entry> churn(const Cluster& cluster, int chains, int length) {
  Clock clock(cluster);
  Recorder recorder(clock);
  std::mt19937 random(11);
  const auto devices = static_cast<unsigned>(cluster.device_count());
  PlayClock::Token next = 0;
  std::function<void()> step = [&] {
    if (next >= static_cast<PlayClock::Token>(chains * length)) return;
    const auto token = next++;
    recorder.actions[token] = step;
    const auto src = static_cast<DeviceId>(random() % devices);
    const auto dst = static_cast<DeviceId>((static_cast<unsigned>(src) + 1 + random() % (devices - 1)) % devices);
    if (random() % 2 == 0)
      clock.set_timer(clock.now() + Seconds{1e-5 * static_cast<double>(random() % 100)}, token);
    else
      clock.start_flow(src, dst, Bytes{static_cast<double>(1 + random() % 10000000)}, BytesPerSecond{7e9}, 1, 0, token);
  };
  for (int i = 0; i < chains; ++i) step();
  clock.run(recorder);
  return recorder.log;
}

}  // namespace

TEST_CASE("simulations of several threads take turns, and each is as if it were alone") {
  const auto cluster = small_cluster(2);
  const auto alone = churn<SimGridClock>(cluster, 12, 40);
  std::vector<std::vector<Recorder::Entry>> logs(8);
  {
    std::vector<std::jthread> threads;
    for (auto& log : logs) threads.emplace_back([&] { log = churn<SimGridClock>(cluster, 12, 40); });
  }
  for (const auto& log : logs) CHECK(log == alone);
}

TEST_CASE("timers of equal date fire in the order they were set, whatever else goes on") {
  const auto solved = GENERATE(Solved::contended, Solved::all);
  const auto cluster = small_cluster(2);
  SimGridClock clock(cluster, solved);
  Recorder recorder(clock);
  clock.start_flow(0, 8, Bytes{1e9}, kClockUncapped, 1, 0, 100);
  for (PlayClock::Token t = 0; t < 50; ++t) clock.set_timer(Seconds{t % 2 == 0 ? 0.01 : 0.3}, t);
  clock.run(recorder);
  std::vector<PlayClock::Token> expected;
  for (PlayClock::Token t = 0; t < 50; t += 2) expected.push_back(t);
  expected.push_back(100);
  for (PlayClock::Token t = 1; t < 50; t += 2) expected.push_back(t);
  CHECK(recorder.tokens() == expected);
  CHECK(recorder.time_of(0) == Approx(0.01).epsilon(1e-15));
  CHECK(recorder.time_of(1) == 0.3);
}

TEST_CASE("flows that end together are told in the order they were started") {
  const auto solved = GENERATE(Solved::contended, Solved::all);
  const auto cluster = small_cluster(16);
  SimGridClock clock(cluster, solved);
  Recorder recorder(clock);
  std::vector<PlayClock::Token> expected;
  for (int d = 0; d < 64; ++d) {
    const auto token = static_cast<PlayClock::Token>((d * 37) % 64);
    clock.start_flow(static_cast<DeviceId>(token), static_cast<DeviceId>(token) + 64, Bytes{1e6}, kClockUncapped, 1, 0,
                     token);
    expected.push_back(token);
  }
  clock.run(recorder);
  CHECK(recorder.tokens() == expected);
  CHECK(recorder.log.front().time == recorder.log.back().time);
}

TEST_CASE("a cancelled timer is forgotten, before and among flows") {
  const auto solved = GENERATE(Solved::contended, Solved::all);
  const auto cluster = small_cluster(2);
  SimGridClock clock(cluster, solved);
  Recorder recorder(clock);
  const auto late = clock.set_timer(Seconds{9}, 1);
  const auto soon = clock.set_timer(Seconds{0.05}, 2);
  recorder.actions[3] = [&] {
    clock.cancel_timer(soon);
    clock.cancel_timer(late);
  };
  clock.set_timer(Seconds{0.01}, 3);
  clock.start_flow(0, 8, Bytes{1e9}, kClockUncapped, 1, 0, 4);
  clock.run(recorder);
  CHECK(recorder.tokens() == std::vector<PlayClock::Token>{3, 4});
  CHECK(clock.now().value() == Approx(0.1).epsilon(1e-12));
}

TEST_CASE("a flow started after a long stretch of timers starts at its own time") {
  const auto solved = GENERATE(Solved::contended, Solved::all);
  const auto cluster = small_cluster(2);
  SimGridClock clock(cluster, solved);
  Recorder recorder(clock);
  recorder.actions[1] = [&] { clock.set_timer(Seconds{2.5}, 2); };
  recorder.actions[2] = [&] {
    clock.start_flow(0, 8, Bytes{1e9}, kClockUncapped, 1, 0, 3);
    clock.set_timer(Seconds{2.55}, 4);
  };
  clock.set_timer(Seconds{1}, 1);
  clock.run(recorder);
  CHECK(recorder.tokens() == std::vector<PlayClock::Token>{1, 2, 4, 3});
  CHECK(recorder.time_of(4) == Approx(2.55).epsilon(1e-15));
  CHECK(recorder.time_of(3) == Approx(2.6).epsilon(1e-14));
}

TEST_CASE("run may be called again and goes on from where it ended") {
  const auto solved = GENERATE(Solved::contended, Solved::all);
  const auto cluster = small_cluster(2);
  SimGridClock clock(cluster, solved);
  Recorder recorder(clock);
  clock.start_flow(0, 8, Bytes{1e9}, kClockUncapped, 1, 0, 1);
  clock.run(recorder);
  clock.set_timer(clock.now() + Seconds{1}, 2);
  clock.run(recorder);
  clock.start_flow(0, 8, Bytes{1e9}, kClockUncapped, 1, 0, 3);
  clock.run(recorder);
  CHECK(recorder.time_of(3) == Approx(1.2).epsilon(1e-12));
}

TEST_CASE("two runs in one process are equal to the bit, each on an engine of its own") {
  const auto cluster = small_cluster(4, {8, 2}, "fat_tree", {{"nodes_per_leaf", 2}, {"oversubscription", 2}});
  const auto first = churn<SimGridClock>(cluster, 24, 60), second = churn<SimGridClock>(cluster, 24, 60);
  CHECK(first.size() == 24 * 60);
  CHECK(first == second);
}

TEST_CASE("contention only ever costs time") {
  const auto cluster = small_cluster(4, {8, 2});
  CHECK(churn<SimGridClock>(cluster, 24, 60).back().time > churn<AnalyticClock>(cluster, 24, 60).back().time);
}

TEST_CASE("one clock at a time") {
  const auto cluster = small_cluster(1);
  {
    SimGridClock clock(cluster);
    CHECK_THROWS_AS(SimGridClock(cluster), Error);
    Recorder recorder(clock);
    clock.start_flow(0, 1, Bytes{1e9}, kClockUncapped, 1, 0, 1);
    clock.run(recorder);
    CHECK(recorder.log.size() == 1);
  }
  CHECK_NOTHROW(SimGridClock(cluster));
}

TEST_CASE("a handler's exception comes out of run, and the clock can be dropped") {
  const auto solved = GENERATE(Solved::contended, Solved::all);
  const auto cluster = small_cluster(2);
  SimGridClock clock(cluster, solved);
  Recorder recorder(clock);
  recorder.actions[1] = [] { throw std::runtime_error("enough"); };
  clock.start_flow(0, 8, Bytes{1e9}, kClockUncapped, 1, 0, 2);
  clock.set_timer(Seconds{0.01}, 1);
  CHECK_THROWS_WITH(clock.run(recorder), "enough");
  CHECK(recorder.tokens() == std::vector<PlayClock::Token>{1});
}

TEST_CASE("a clock with flows that never ran can be dropped") {
  const auto solved = GENERATE(Solved::contended, Solved::all);
  const auto cluster = small_cluster(2);
  SimGridClock clock(cluster, solved);
  clock.start_flow(0, 8, Bytes{1e9}, kClockUncapped, 1, 0, 2);
  clock.set_timer(Seconds{1}, 1);
}

TEST_CASE("flows that cannot be are refused") {
  const auto cluster = small_cluster(1);
  SimGridClock clock(cluster);
  CHECK_THROWS_AS(clock.start_flow(0, 1, Bytes{0}, kClockUncapped, 1, 0, 1), std::logic_error);
  CHECK_THROWS_AS(clock.start_flow(0, 1, Bytes{1}, BytesPerSecond{0}, 1, 0, 1), std::logic_error);
  CHECK_THROWS_AS(clock.start_flow(0, 0, Bytes{1}, kClockUncapped, 1, 0, 1), std::logic_error);
}

TEST_CASE("SimGrid prints nothing") {
  const auto solved = GENERATE(Solved::contended, Solved::all);
  const auto cluster = small_cluster(2);
  std::fflush(nullptr);
  const int saved_out = dup(1), saved_err = dup(2);
  std::FILE* file = std::tmpfile();
  dup2(fileno(file), 1);
  dup2(fileno(file), 2);
  {
    SimGridClock clock(cluster, solved);
    Recorder recorder(clock);
    clock.start_flow(0, 8, Bytes{1e9}, kClockUncapped, 5, 1, 1);
    clock.run(recorder);
  }
  std::fflush(nullptr);
  dup2(saved_out, 1);
  dup2(saved_err, 2);
  close(saved_out);
  close(saved_err);
  CHECK(lseek(fileno(file), 0, SEEK_END) == 0);
  std::fclose(file);
}

TEST_CASE("interrupts stay the program's") {
  const auto cluster = small_cluster(1);
  const auto before = std::signal(SIGINT, SIG_IGN);
  SimGridClock clock(cluster);
  CHECK(std::signal(SIGINT, before) == SIG_IGN);
}
