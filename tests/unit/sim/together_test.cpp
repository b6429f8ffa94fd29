// Several Programs at once on one cluster: shares of the links between them, worked out by hand.

#include "core/play/player/player.hpp"
#include "sim/simgrid_clock.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hand_made.hpp"
#include "tests/support/testbed.hpp"

using namespace rehearse;
using namespace rehearse::testing;

namespace {

const double kByHand = 1e-9;

/// Two leaves of two nodes of 8 GPUs and 8 NICs; a leaf's way up carries what one NIC sends.
const Testbed& two_leaves() {
  static const Testbed one([] {
    NetworkSpec network = shipped_network("ib_hdr");
    network.parameters = {{"levels", 2}, {"nodes_per_leaf", 2}, {"oversubscription", 16}};
    return machines_on(4, std::move(network));
  }());
  return one;
}

/// One message of so many bytes from a GPU to another.
Program message(DeviceId from, DeviceId to, std::int64_t bytes) {
  HandMade made(Axis::pp, 2, {talks(Axis::pp)});
  const int data = made.tensor(bytes);
  made.call(0, made.body("send", {made.message(P2pTask::Direction::send, 1, data, 1)}), {}, false, 1);
  made.call(1, made.body("receive", {made.message(P2pTask::Direction::receive, 0, data, 1)}), {}, false, 1);
  made.program.device_of_rank = {from, to};
  return made.program;
}

struct Timed {
  Program program;
  Seconds begin{};
};

std::vector<double> times_together(const std::vector<Timed>& jobs, int steps = 1) {
  RunOptions options;
  options.steps = steps;
  Trace nothing({});
  std::vector<PlayedProgram> programs;
  for (const Timed& j : jobs) programs.push_back({j.program, two_leaves().cost, options, nothing, j.begin, true});
  sim::SimGridClock clock(two_leaves().cluster);
  std::vector<double> out;
  for (const RunResult& run : play(two_leaves().cluster, programs, clock, "test")) {
    CHECK(run.breaches.empty());
    out.push_back(run.step_times.back().value());
  }
  return out;
}

double time_alone(const Program& p) { return times_together({{p}}).front(); }

/// What a message takes beside the time that its bytes take, and the rate of these, each alone.
struct Line {
  double latency, rate;
};
Line line(DeviceId from, DeviceId to) {
  const double one = time_alone(message(from, to, 1'000'000'000'000)),
               two = time_alone(message(from, to, 2'000'000'000'000));
  return {2 * one - two, 1e12 / (two - one)};
}

/// The slowest link that two routes have in common.
double common_rate(DeviceId a, DeviceId b, DeviceId c, DeviceId d) {
  const Cluster& cluster = two_leaves().cluster;
  const auto first = cluster.route(a, b).links, second = cluster.route(c, d).links;
  double rate = 0;
  for (const LinkId l : first)
    if (std::find(second.begin(), second.end(), l) != second.end()) {
      const double r = cluster.link_rate(l).value();
      rate = rate == 0 ? r : std::min(rate, r);
    }
  return rate;
}

}  // namespace

TEST_CASE("two jobs halve the link that they share, and the longer then has it alone") {
  const double shared = common_rate(0, 16, 8, 24);
  REQUIRE(shared > 0);
  const Line a = line(0, 16), b = line(8, 24);
  REQUIRE(a.rate > shared / 2);
  REQUIRE(b.rate > shared / 2);
  const auto times = times_together({{message(0, 16, 1'000'000'000'000)}, {message(8, 24, 3'000'000'000'000)}});
  CHECK(times[0] == Approx(1e12 / (shared / 2) + a.latency).epsilon(kByHand));
  CHECK(times[1] == Approx(1e12 / (shared / 2) + 2e12 / b.rate + b.latency).epsilon(kByHand));
}

TEST_CASE("three jobs get a third each, and one that ends leaves halves") {
  const double shared = common_rate(0, 16, 8, 24);
  const Line a = line(0, 16), b = line(8, 24), c = line(1, 17);
  const auto times = times_together(
      {{message(0, 16, 1'000'000'000'000)}, {message(8, 24, 2'000'000'000'000)}, {message(1, 17, 4'000'000'000'000)}});
  const double third = 3e12 / shared, half = 2e12 / shared;
  CHECK(times[0] == Approx(third + a.latency).epsilon(kByHand));
  CHECK(times[1] == Approx(third + half + b.latency).epsilon(kByHand));
  CHECK(times[2] == Approx(third + half + 2e12 / c.rate + c.latency).epsilon(kByHand));
}

TEST_CASE("a job that begins later has its own clock, and meets the others from there on") {
  const double shared = common_rate(0, 16, 8, 24);
  const Line a = line(0, 16), b = line(8, 24);
  const double head_start = 0.5e12 / a.rate;
  const auto times =
      times_together({{message(0, 16, 1'500'000'000'000)}, {message(8, 24, 1'000'000'000'000), Seconds{head_start}}});
  // Both have 1e12 bytes left when the second begins.
  CHECK(times[0] == Approx(head_start + 2e12 / shared + a.latency).epsilon(1e-7));
  CHECK(times[1] == Approx(2e12 / shared + b.latency).epsilon(1e-7));
}

TEST_CASE("jobs without a common link take what they take alone, to the bit") {
  const Program left = message(0, 8, 1'000'000'000'000), right = message(16, 24, 2'000'000'000'000);
  REQUIRE(common_rate(0, 8, 16, 24) == 0);
  const auto times = times_together({{left}, {right}}, 3);
  CHECK(times[0] == times_together({{left}}, 3).front());
  CHECK(times[1] == times_together({{right}}, 3).front());
}

TEST_CASE("the order in which jobs are named changes nothing") {
  const Program a = message(0, 16, 1'000'000'000'000), b = message(8, 24, 3'000'000'000'000);
  const auto one = times_together({{a}, {b}}, 4), other = times_together({{b}, {a}}, 4);
  CHECK(one[0] == Approx(other[1]).epsilon(kByHand));
  CHECK(one[1] == Approx(other[0]).epsilon(kByHand));
}

TEST_CASE("a device has one rank") {
  CHECK_THROWS_WITH(times_together({{message(0, 16, 8)}, {message(16, 24, 8)}}), "device 16 has two ranks");
}
