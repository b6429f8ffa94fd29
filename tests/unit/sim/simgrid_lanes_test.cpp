// Lanes played as one weighted flow take as long as the same lanes played one by one.

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

constexpr BytesPerSecond kLanesUncapped{std::numeric_limits<double>::infinity()};

struct Transfer {
  DeviceId src, dst;
  double bytes;
  BytesPerSecond cap;
  int lanes;
};

/// End of each transfer, its lanes as one flow or as flows of their own, and the bytes of every link.
struct LanesOutcome {
  std::vector<double> ends;
  std::vector<double> link_bytes;
};

LanesOutcome play_lanes(const Cluster& cluster, const std::vector<Transfer>& transfers, bool as_one) {
  SimGridClock clock(cluster);
  Recorder recorder(clock);
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const auto& t = transfers[i];
    if (as_one) clock.start_flow(t.src, t.dst, Bytes{t.bytes}, t.cap, t.lanes, 1, i);
    for (int j = 0; !as_one && j < t.lanes; ++j) clock.start_flow(t.src + j, t.dst + j, Bytes{t.bytes}, t.cap, 1, 0, i);
  }
  clock.run(recorder);
  LanesOutcome out{std::vector<double>(transfers.size(), 0.0), clock.link_bytes()};
  for (const auto& entry : recorder.log) out.ends[entry.token] = std::max(out.ends[entry.token], entry.time);
  return out;
}

void check_equal(const Cluster& cluster, const std::vector<Transfer>& transfers) {
  const auto one = play_lanes(cluster, transfers, true), many = play_lanes(cluster, transfers, false);
  for (std::size_t i = 0; i < transfers.size(); ++i) CHECK(one.ends[i] == Approx(many.ends[i]).epsilon(1e-12));
  CHECK(one.link_bytes == many.link_bytes);
}

}  // namespace

TEST_CASE("eight lanes on rails of their own") {
  const auto cluster = small_cluster(4, {}, "rail_optimised");
  check_equal(cluster, {{0, 8, 1e9, kLanesUncapped, 8}});
  check_equal(cluster,
              {{0, 8, 1e9, kLanesUncapped, 8}, {16, 8, 2e9, kLanesUncapped, 8}, {0, 24, 3e9, BytesPerSecond{2e9}, 8}});
}

TEST_CASE("eight lanes over two NICs") {
  const auto cluster = small_cluster(4, {8, 2});
  check_equal(cluster,
              {{0, 8, 1e9, kLanesUncapped, 8}, {16, 8, 2e9, kLanesUncapped, 8}, {0, 24, 3e9, kLanesUncapped, 8}});
}

TEST_CASE("lanes that meet at an oversubscribed leaf take as many shares of it") {
  const auto cluster = small_cluster(4, {8, 1}, "fat_tree", {{"nodes_per_leaf", 2}, {"oversubscription", 4}});
  check_equal(cluster, {{0, 16, 1e9, kLanesUncapped, 8}, {8, 24, 1e9, BytesPerSecond{2e8}, 8}});
  check_equal(cluster, {{0, 16, 1e9, kLanesUncapped, 8}, {8, 24, 2e9, kLanesUncapped, 4}});
}

TEST_CASE("k lanes and a single flow split a link k to 1") {
  const auto cluster = small_cluster(2, {4, 1});
  SimGridClock clock(cluster);
  Recorder recorder(clock);
  clock.start_flow(0, 4, Bytes{1e9}, kLanesUncapped, 3, 1, 1);
  clock.start_flow(3, 7, Bytes{1e9}, kLanesUncapped, 1, 0, 2);
  clock.run(recorder);
  CHECK(recorder.time_of(1) == Approx(4 * 1e9 / 10e9).epsilon(1e-12));
  CHECK(recorder.time_of(2) == recorder.time_of(1));
}

TEST_CASE("lanes that don't look alike are played one by one and end with the last") {
  const auto cluster = small_cluster(2, {8, 2});
  check_equal(cluster, {{0, 8, 1e9, kLanesUncapped, 5}});
  SimGridClock clock(cluster);
  Recorder recorder(clock);
  clock.start_flow(0, 8, Bytes{1e9}, kLanesUncapped, 5, 1, 1);  // Four lanes on one NIC, the fifth alone on the other.
  clock.run(recorder);
  CHECK(recorder.log.size() == 1);
  CHECK(recorder.time_of(1) == Approx(4 * 1e9 / 10e9).epsilon(1e-12));
}

TEST_CASE("where lanes share links with no other flow, the analytic clock agrees") {
  const auto solved = GENERATE(Solved::contended, Solved::all);
  for (int nics : {1, 2, 4, 8}) {
    const auto cluster = small_cluster(2, {8, nics});
    for (int lanes : {1, 2, 3, 5, 8})
      for (double cap : {1e8, 3e9, 1e12}) {
        SimGridClock clock(cluster, solved);
        AnalyticClock analytic(cluster);
        Recorder recorder(clock), expected(analytic);
        clock.start_flow(0, 8, Bytes{123456789}, BytesPerSecond{cap}, lanes, 1, 1);
        analytic.start_flow(0, 8, Bytes{123456789}, BytesPerSecond{cap}, lanes, 1, 1);
        clock.run(recorder);
        analytic.run(expected);
        CHECK(recorder.time_of(1) == Approx(expected.time_of(1)).epsilon(1e-12));
        CHECK(clock.link_bytes() == analytic.link_bytes());
      }
  }
}
