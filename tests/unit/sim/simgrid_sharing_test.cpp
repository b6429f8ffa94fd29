// SimGrid, as set up here, shares links max-min fairly and by nothing else.

#include <limits>

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

constexpr BytesPerSecond kSharingUncapped{std::numeric_limits<double>::infinity()};
const double kTight = 1e-12;

}  // namespace

TEST_CASE("a flow alone takes bytes / min(cap, slowest link), and no latency") {
  const auto solved = GENERATE(Solved::contended, Solved::all);
  const auto cluster = small_cluster(2);
  SimGridClock clock(cluster, solved);
  Recorder recorder(clock);
  clock.start_flow(0, 8, Bytes{1e9}, kSharingUncapped, 1, 0, 1);
  clock.start_flow(1, 9, Bytes{1e9}, BytesPerSecond{5e9}, 1, 0, 2);
  clock.start_flow(2, 3, Bytes{1e9}, BytesPerSecond{1e12}, 1, 0, 3);
  clock.start_flow(4, 5, Bytes{0.75}, BytesPerSecond{1}, 1, 0, 4);
  clock.run(recorder);
  CHECK(recorder.time_of(1) == Approx(1e9 / 10e9).epsilon(kTight));
  CHECK(recorder.time_of(2) == Approx(1e9 / 5e9).epsilon(kTight));
  CHECK(recorder.time_of(3) == Approx(1e9 / kNvlink).epsilon(kTight));
  CHECK(recorder.time_of(4) == Approx(0.75).epsilon(kTight));
}

TEST_CASE("two flows halve the link they share, and the longer one then has it alone") {
  const auto cluster = small_cluster(2);
  SimGridClock clock(cluster);
  Recorder recorder(clock);
  clock.start_flow(0, 8, Bytes{1e9}, kSharingUncapped, 1, 0, 1);
  clock.start_flow(0, 8, Bytes{3e9}, kSharingUncapped, 1, 0, 2);
  clock.run(recorder);
  CHECK(recorder.time_of(1) == Approx(2 * 1e9 / 10e9).epsilon(kTight));
  CHECK(recorder.time_of(2) == Approx((2 * 1e9 + 2e9) / 10e9).epsilon(kTight));
}

TEST_CASE("shares do not depend on the length or latency of the rest of a route") {
  const auto cluster = small_cluster(4, {8, 2}, "fat_tree", {{"nodes_per_leaf", 2}});
  REQUIRE(cluster.route(0, 8).links.size() < cluster.route(1, 16).links.size());
  REQUIRE(cluster.route(0, 8).latency < cluster.route(1, 16).latency);
  SimGridClock clock(cluster);
  Recorder recorder(clock);
  clock.start_flow(0, 8, Bytes{1e9}, kSharingUncapped, 1, 0, 1);   // Inside the leaf.
  clock.start_flow(1, 16, Bytes{1e9}, kSharingUncapped, 1, 0, 2);  // Through a spine; the NIC of node 0 is shared.
  clock.run(recorder);
  CHECK(recorder.time_of(1) == Approx(2 * 1e9 / 10e9).epsilon(kTight));
  CHECK(recorder.time_of(2) == recorder.time_of(1));
}

TEST_CASE("what a capped flow leaves goes to the others") {
  const auto cluster = small_cluster(2);
  SimGridClock clock(cluster);
  Recorder recorder(clock);
  clock.start_flow(0, 8, Bytes{1e9}, BytesPerSecond{1e9}, 1, 0, 1);
  clock.start_flow(0, 8, Bytes{4.5e9}, kSharingUncapped, 1, 0, 2);
  clock.start_flow(0, 8, Bytes{4.5e9}, kSharingUncapped, 1, 0, 3);
  clock.run(recorder);
  for (PlayClock::Token token : {1, 2, 3}) CHECK(recorder.time_of(token) == Approx(1.0).epsilon(kTight));
}

TEST_CASE("max-min: the flow over two busy links gets the least share, the others the rest") {
  // NICs at 10 GB/s. Out of device 0: A, B, C. Into device 16: C, D. A, B, C get a third each, D the other two thirds.
  const auto cluster = small_cluster(4);
  SimGridClock clock(cluster);
  Recorder recorder(clock);
  const double third = 10e9 / 3;
  clock.start_flow(0, 8, Bytes{third}, kSharingUncapped, 1, 0, 1);
  clock.start_flow(0, 24, Bytes{third}, kSharingUncapped, 1, 0, 2);
  clock.start_flow(0, 16, Bytes{third}, kSharingUncapped, 1, 0, 3);
  clock.start_flow(8, 16, Bytes{2 * third}, kSharingUncapped, 1, 0, 4);
  clock.run(recorder);
  for (PlayClock::Token token : {1, 2, 3, 4}) CHECK(recorder.time_of(token) == Approx(1.0).epsilon(1e-9));
}

TEST_CASE("a flow that joins halfway slows the other from then on") {
  const auto cluster = small_cluster(2);
  SimGridClock clock(cluster);
  Recorder recorder(clock);
  recorder.actions[9] = [&] { clock.start_flow(0, 8, Bytes{1e9}, kSharingUncapped, 1, 0, 2); };
  clock.start_flow(0, 8, Bytes{1e9}, kSharingUncapped, 1, 0, 1);
  clock.set_timer(Seconds{0.05}, 9);
  clock.run(recorder);
  CHECK(recorder.time_of(1) == Approx(0.15).epsilon(kTight));
  CHECK(recorder.time_of(2) == Approx(0.20).epsilon(kTight));
}

TEST_CASE("both directions of a link are independent") {
  const auto solved = GENERATE(Solved::contended, Solved::all);
  const auto cluster = small_cluster(2);
  SimGridClock clock(cluster, solved);
  Recorder recorder(clock);
  clock.start_flow(0, 8, Bytes{1e9}, kSharingUncapped, 1, 0, 1);
  clock.start_flow(8, 0, Bytes{1e9}, kSharingUncapped, 1, 0, 2);
  clock.run(recorder);
  CHECK(recorder.time_of(1) == Approx(0.1).epsilon(kTight));
  CHECK(recorder.time_of(2) == recorder.time_of(1));
}

TEST_CASE("a ring all-reduce as fluid edges takes 2 (n-1)/n S / rate") {
  const auto solved = GENERATE(Solved::contended, Solved::all);
  const int n = 64;
  const double bytes = 256e6, rate = 10e9;
  const auto cluster = small_cluster(n, {1, 1, rate});
  SimGridClock clock(cluster, solved);
  AnalyticClock analytic(cluster);
  Recorder recorder(clock), expected(analytic);
  for (int d = 0; d < n; ++d) {
    const Bytes edge{2.0 * (n - 1) / n * bytes};
    clock.start_flow(d, (d + 1) % n, edge, kSharingUncapped, 1, 0, static_cast<PlayClock::Token>(d));
    analytic.start_flow(d, (d + 1) % n, edge, kSharingUncapped, 1, 0, static_cast<PlayClock::Token>(d));
  }
  clock.run(recorder);
  analytic.run(expected);
  CHECK(recorder.log.back().time == Approx(2.0 * (n - 1) / n * bytes / rate).epsilon(kTight));
  CHECK(recorder.log.back().time == Approx(expected.log.back().time).epsilon(kTight));
  CHECK(recorder.tokens() == expected.tokens());
}

TEST_CASE("rings through an oversubscribed leaf take the oversubscription longer") {
  // Four nodes a leaf, one of two NIC rates of trunk for every two: strided rings cross the spine on every edge.
  const auto cluster = small_cluster(8, {1, 1}, "fat_tree", {{"nodes_per_leaf", 4}, {"oversubscription", 2}});
  SimGridClock clock(cluster);
  Recorder recorder(clock);
  for (int d = 0; d < 4; ++d) {
    clock.start_flow(d, d + 4, Bytes{1e9}, kSharingUncapped, 1, 0, static_cast<PlayClock::Token>(d));
    clock.start_flow(d + 4, d, Bytes{1e9}, kSharingUncapped, 1, 0, static_cast<PlayClock::Token>(d + 4));
  }
  clock.run(recorder);
  CHECK(recorder.log.back().time == Approx(2 * 1e9 / 10e9).epsilon(kTight));
}
