// Flows that are kept from SimGrid end when SimGrid would have ended them.

#include <limits>
#include <random>

#include "core/base/index.hpp"
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

constexpr BytesPerSecond kFreeFlowsUncapped{std::numeric_limits<double>::infinity()};

struct Start {
  double at;
  DeviceId src, dst;
  double bytes;
  BytesPerSecond cap;
  int lanes;
};

/// Ends by flow.
struct FreeFlowsOutcome {
  std::vector<double> ends;
  std::vector<double> link_bytes;
  std::uint64_t solved;
};

FreeFlowsOutcome play(const Cluster& cluster, const std::vector<Start>& starts, Solved solved) {
  SimGridClock clock(cluster, solved);
  Recorder recorder(clock);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const Start& s = starts[i];
    const auto begin = [&clock, s, token = starts.size() + i] {
      clock.start_flow(s.src, s.dst, Bytes{s.bytes}, s.cap, s.lanes, 1, token);
    };
    recorder.actions[i] = begin;
    clock.set_timer(Seconds{s.at}, i);
  }
  clock.run(recorder);
  FreeFlowsOutcome out{std::vector<double>(starts.size(), -1.0), clock.link_bytes(), clock.solver_flows()};
  for (const auto& entry : recorder.log)
    if (entry.flow) out.ends[entry.token - starts.size()] = entry.time;
  return out;
}

/// Flows between random devices; the longer `span`, the fewer meet.
std::vector<Start> random_traffic(const Cluster& cluster, unsigned seed, int count, double span) {
  std::mt19937 random(seed);
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random()) / 4294967296.0;
  };
  const auto devices = static_cast<unsigned>(cluster.device_count());
  std::vector<Start> starts;
  for (int i = 0; i < count; ++i) {
    const auto src = static_cast<DeviceId>(random() % devices);
    const auto dst = static_cast<DeviceId>((static_cast<unsigned>(src) + 1 + random() % (devices - 1)) % devices);
    const auto cap = random() % 4 == 0 ? kFreeFlowsUncapped : BytesPerSecond{uniform(0.2e9, 12e9)};
    // Some start together, some are of several lanes, from the first device of a node to that of another.
    const double at = random() % 3 == 0 && i > 0 ? starts.back().at : uniform(0, span);
    if (random() % 8 == 0 && src / 8 != dst / 8)
      starts.push_back({at, src / 8 * 8, dst / 8 * 8, uniform(1e6, 5e7), cap, static_cast<int>(2 + random() % 7)});
    else
      starts.push_back({at, src, dst, uniform(1e6, 5e7), cap, 1});
  }
  return starts;
}

}  // namespace

TEST_CASE("random traffic ends as with SimGrid for all flows") {
  const auto cluster = small_cluster(8, {8, 4}, "fat_tree", {{"nodes_per_leaf", 2}, {"oversubscription", 2}});
  bool some_free = false, some_solved = false;
  for (unsigned seed = 1; seed <= 24; ++seed) {
    const int count = 400;
    const auto starts = random_traffic(cluster, seed, count, 0.01 * seed * seed);
    const auto fast = play(cluster, starts, Solved::contended), all = play(cluster, starts, Solved::all);
    double worst = 0;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      REQUIRE(all.ends[i] > starts[i].at);
      worst = std::max(worst, std::abs(fast.ends[i] - all.ends[i]) / (all.ends[i] - starts[i].at));
    }
    INFO("seed " << seed << ", " << fast.solved << " of " << all.solved << " transfers solved");
    CHECK(worst < 1e-9);
    for (std::size_t l = 0; l < all.link_bytes.size(); ++l)
      REQUIRE(fast.link_bytes[l] == Approx(all.link_bytes[l]).epsilon(1e-12));
    some_free = some_free || fast.solved < all.solved / 4;
    some_solved = some_solved || fast.solved > all.solved * 3 / 4;
  }
  CHECK(some_free);
  CHECK(some_solved);
}

TEST_CASE("a bundle ends with the last of its flows, as if each had been started by itself") {
  const auto cluster = small_cluster(8, {8, 4}, "fat_tree", {{"nodes_per_leaf", 2}, {"oversubscription", 2}});
  for (unsigned seed = 1; seed <= 12; ++seed) {
    // Rings of some of the GPUs, at dates that let them meet.
    std::mt19937 random(seed);
    struct Ring {
      double at;
      std::vector<PlayClock::Flow> flows;
    };
    std::vector<Ring> rings;
    for (int r = 0; r < 12; ++r) {
      Ring ring{static_cast<double>(random() % 8) * 0.004, {}};
      const auto first = static_cast<DeviceId>(random() % 16), stride = static_cast<DeviceId>(3 + random() % 6);
      const double bytes = 1e7 * static_cast<double>(1 + random() % 4);
      for (DeviceId d = first; d + stride < cluster.device_count(); d += stride)
        ring.flows.push_back({d, d + stride, Bytes{random() % 4 == 0 ? bytes / 2 : bytes},
                              BytesPerSecond{random() % 4 == 0 ? 2e9 : 4e9}});
      rings.push_back(std::move(ring));
    }
    const auto ends = [&](bool bundled) {
      SimGridClock clock(cluster);
      Recorder recorder(clock);
      for (std::size_t r = 0; r < rings.size(); ++r) {
        recorder.actions[r] = [&, r] {
          if (bundled) return clock.start(clock.prepare(rings[r].flows, 1, 0), 100 + r);
          for (const auto& f : rings[r].flows) clock.start_flow(f.src, f.dst, f.bytes, f.cap, 1, 0, 100 + r);
        };
        clock.set_timer(Seconds{rings[r].at}, r);
      }
      clock.run(recorder);
      std::vector<double> last(rings.size(), 0.0);
      for (const auto& e : recorder.log)
        if (e.flow) last[e.token - 100] = std::max(last[e.token - 100], e.time);
      double carried = 0;
      for (const double b : clock.link_bytes()) carried += b;
      last.push_back(carried);
      return last;
    };
    const auto together = ends(true), apart = ends(false);
    for (std::size_t r = 0; r < together.size(); ++r) CHECK(together[r] == Approx(apart[r]).epsilon(1e-11));
  }
}

TEST_CASE("a bundle in nobody's way is one event, wherever its flows go") {
  const auto cluster = small_cluster(16);
  SimGridClock clock(cluster);
  Recorder recorder(clock);
  std::vector<PlayClock::Flow> ring;
  for (DeviceId d = 0; d < 128; ++d) ring.push_back({d, (d + 8) % 128, Bytes{1e9}, kFreeFlowsUncapped});
  const auto bundle = clock.prepare(ring, 1, 0);
  recorder.actions[1] = [&] { clock.start(bundle, 2); };
  clock.start(bundle, 1);
  clock.run(recorder);
  CHECK(recorder.log == std::vector<Recorder::Entry>{{0.1, true, 1}, {0.2, true, 2}});
  CHECK(clock.solver_flows() == 0);
  CHECK_THROWS_AS(clock.prepare({}, 1, 0), std::logic_error);
}

TEST_CASE("flows with links of their own, or that fit the ones they share, never see SimGrid") {
  const auto cluster = small_cluster(4);
  std::vector<Start> starts;
  for (DeviceId d = 0; d < 16; ++d) starts.push_back({0, d, d + 16, 1e9, kFreeFlowsUncapped, 1});
  for (int i = 0; i < 4; ++i) starts.push_back({0.01 * i, 16, 0, 1e9, BytesPerSecond{2.5e9}, 1});
  starts.push_back({0, 24, 8, 1e9, kFreeFlowsUncapped, 8});
  const auto out = play(cluster, starts, Solved::contended);
  CHECK(out.solved == 0);
  for (std::size_t i = 0; i < 16; ++i) CHECK(out.ends[i] == 0.1);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(out.ends[16 + i] == Approx(0.01 * static_cast<double>(i) + 0.4).epsilon(1e-15));
}

TEST_CASE("without contention the end is the analytic clock's to the bit") {
  const auto cluster = small_cluster(4, {}, "rail_optimised");
  SimGridClock clock(cluster);
  AnalyticClock analytic(cluster);
  Recorder recorder(clock), expected(analytic);
  for (PlayClock::Token t = 0; t < 8; ++t)
    for (PlayClock* each : {static_cast<PlayClock*>(&clock), static_cast<PlayClock*>(&analytic)})
      each->start_flow(static_cast<DeviceId>(t), static_cast<DeviceId>(t) + 8,
                       Bytes{1e9 / 7.0 + static_cast<double>(t)}, kFreeFlowsUncapped, 1, 0, t);
  clock.run(recorder);
  analytic.run(expected);
  CHECK(recorder.log == expected.log);
  CHECK(clock.link_bytes() == analytic.link_bytes());
}

TEST_CASE(
    "a newcomer that overloads a link takes those on it to SimGrid, with the bytes they have left, and no one else") {
  const auto cluster = small_cluster(4);
  // Alone for 50 ms, then half the NIC each: 0.5 GB left take 100 ms; the newcomer then has 0.5 GB left and the NIC to
  // itself.
  const auto out = play(cluster,
                        {{0, 0, 8, 1e9, kFreeFlowsUncapped, 1},
                         {0, 1, 9, 1e9, kFreeFlowsUncapped, 1},
                         {0.05, 0, 16, 1e9, kFreeFlowsUncapped, 1}},
                        Solved::contended);
  CHECK(out.ends[0] == Approx(0.15).epsilon(1e-12));
  CHECK(out.ends[1] == 0.1);
  CHECK(out.ends[2] == Approx(0.20).epsilon(1e-12));
  CHECK(out.solved == 2);
  double crossed = 0;
  for (const auto link : cluster.route(0, 8).links) crossed = std::max(crossed, nth(out.link_bytes, link));
  CHECK(crossed == 2e9);
}

TEST_CASE("a solved flow leaves room for a free one on a link that both cross") {
  // Out of device 0: A and B, 5 GB/s each. Into device 8: A, which could use 10 GB/s but whose cap is 7, and C at 3
  // GB/s.
  const auto cluster = small_cluster(4);
  const auto out = play(cluster,
                        {{0, 0, 8, 1e9, BytesPerSecond{7e9}, 1},
                         {0, 0, 16, 1e9, kFreeFlowsUncapped, 1},
                         {0.1, 24, 8, 3e8, BytesPerSecond{3e9}, 1}},
                        Solved::contended);
  CHECK(out.solved == 2);
  CHECK(out.ends[0] == Approx(0.2).epsilon(1e-12));
  CHECK(out.ends[1] == Approx(0.2).epsilon(1e-12));
  CHECK(out.ends[2] == Approx(0.2).epsilon(1e-12));
}

TEST_CASE("once a link is asked for no more than it has, newcomers run free on it again") {
  const auto cluster = small_cluster(4);
  const auto out = play(cluster,
                        {{0, 0, 8, 1e8, kFreeFlowsUncapped, 1},
                         {0, 0, 16, 1e8, kFreeFlowsUncapped, 1},
                         {0.5, 0, 8, 1e9, kFreeFlowsUncapped, 1}},
                        Solved::contended);
  CHECK(out.solved == 2);
  CHECK(out.ends[2] == 0.6);
}

TEST_CASE("chains that hand a link on at one date don't overload it") {
  // Flow i + 1 starts when flow i is told, in both of two chains whose flows take turns with equal dates.
  const auto cluster = small_cluster(2);
  SimGridClock clock(cluster);
  Recorder recorder(clock);
  for (PlayClock::Token chain : {0, 1000}) {
    for (PlayClock::Token i = 0; i < 300; ++i)
      recorder.actions[chain + i] = [&clock, chain, i] {
        clock.start_flow(0, 8, Bytes{1e8 / 3}, BytesPerSecond{5e9}, 1, 0, chain + i + 1);
      };
    clock.set_timer(Seconds{0.1}, chain);
  }
  clock.run(recorder);
  CHECK(recorder.log.size() == 602);
  CHECK(clock.solver_flows() == 0);
  CHECK(clock.now().value() == Approx(0.1 + 300 * (1e8 / 3) / 5e9).epsilon(1e-12));
}

TEST_CASE("a flow that is at its end but for rounding doesn't hold up the next") {
  const auto cluster = small_cluster(2);
  SimGridClock clock(cluster);
  Recorder recorder(clock);
  clock.start_flow(0, 8, Bytes{1e9}, kFreeFlowsUncapped, 1, 0, 1);
  recorder.actions[2] = [&] { clock.start_flow(0, 8, Bytes{1e9}, kFreeFlowsUncapped, 1, 0, 3); };
  clock.set_timer(Seconds{0.1 - 1e-13}, 2);
  clock.run(recorder);
  CHECK(recorder.tokens() == std::vector<PlayClock::Token>{2, 1, 3});
  CHECK(recorder.time_of(3) == Approx(0.2).epsilon(1e-11));
  CHECK(clock.solver_flows() == 0);
}
