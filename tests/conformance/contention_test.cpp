// Cases of contention that can be worked out on paper, played flow by flow: rings over one link, incast, a pipeline
// between oversubscribed pods, routes of unequal latency; and folding, which is claimed only where it changes nothing.

#include <limits>

#include <fmt/format.h>

#include "core/play/player/plan_play.hpp"
#include "core/program/body.hpp"
#include "sim/simgrid_clock.hpp"
#include "tests/conformance/books.hpp"
#include "tests/conformance/scenes.hpp"
#include "tests/support/hand_made.hpp"
#include "tests/support/recorder.hpp"
#include "tests/support/small_cluster.hpp"

using namespace rehearse;
using namespace rehearse::testing;
using rehearse::sim::SimGridClock;

namespace {

constexpr double kExact = 1e-9;
constexpr double kNic = 10e9;  // small_cluster's.
constexpr BytesPerSecond kUncapped{std::numeric_limits<double>::infinity()};

/// A ring all-reduce of `bytes` over `group`, as fast as its wires allow.
FluidPlan ring(const std::vector<DeviceId>& group, double bytes) {
  const double n = static_cast<double>(group.size());
  FluidPlan out{{}, kUncapped, Seconds{0}};
  for (std::size_t i = 0; i < group.size(); ++i)
    out.edges.push_back({group[i], group[(i + 1) % group.size()], Bytes{2 * (n - 1) / n * bytes}});
  return out;
}

FluidPlan both(FluidPlan a, const FluidPlan& b) {
  a.edges.insert(a.edges.end(), b.edges.begin(), b.edges.end());
  return a;
}

RunResult flow_level(const Testbed& bed, const Program& p, const RunOptions& options = {}) {
  SimGridClock clock(bed.cluster);
  return bed.play_on(clock, p, options);
}

double played(const Cluster& cluster, const FluidPlan& plan) {
  SimGridClock clock(cluster);
  return play_plan(plan, clock).value();
}

}  // namespace

TEST_CASE("two rings through one NIC take twice as long, two rings on NICs of their own do not") {
  for (const int nodes : {2, 3, 8}) {
    std::vector<DeviceId> even, odd;
    for (int n = 0; n < nodes; ++n) {
      even.push_back(2 * n);
      odd.push_back(2 * n + 1);
    }
    const double bytes = 1e9, alone = 2.0 * (nodes - 1) / nodes * bytes / kNic;
    const auto one_nic = small_cluster(nodes, {2, 1}), two_nics = small_cluster(nodes, {2, 2});
    CHECK(played(one_nic, ring(even, bytes)) == Approx(alone).epsilon(kExact));
    CHECK(played(one_nic, both(ring(even, bytes), ring(odd, bytes))) == Approx(2 * alone).epsilon(kExact));
    CHECK(played(two_nics, both(ring(even, bytes), ring(odd, bytes))) == Approx(alone).epsilon(kExact));
  }
}

TEST_CASE(
    "of two unequal rings through one NIC the smaller ends at twice its time, the larger when all bytes have crossed") {
  const auto cluster = small_cluster(4, {2, 1});
  const std::vector<DeviceId> even{0, 2, 4, 6}, odd{1, 3, 5, 7};
  const double small = 1e9, large = 5e9, factor = 2.0 * 3 / 4;
  SimGridClock clock(cluster);
  Recorder recorder(clock);
  PlayClock::Token token = 0;
  for (const auto* plan : {&even, &odd})
    for (const FluidEdge& e : ring(*plan, plan == &even ? small : large).edges)
      clock.start_flow(e.src, e.dst, e.bytes, kUncapped, 1, 1, token++);
  clock.run(recorder);
  for (PlayClock::Token t = 0; t < 4; ++t)
    CHECK(recorder.time_of(t) == Approx(2 * factor * small / kNic).epsilon(kExact));
  for (PlayClock::Token t = 4; t < 8; ++t)
    CHECK(recorder.time_of(t) == Approx(factor * (small + large) / kNic).epsilon(kExact));
}

TEST_CASE("collectives of the model side by side on one NIC share it: the rate cap binds until the NIC does") {
  const auto cluster = small_cluster(4, {2, 1});
  const CollectiveModel model(cluster, {"Ring", "Simple", false});
  const std::vector<DeviceId> even{0, 2, 4, 6}, odd{1, 3, 5, 7};
  const auto a = model.plan(CollectiveOp::all_reduce, Bytes{1e9}, even),
             b = model.plan(CollectiveOp::all_reduce, Bytes{1e9}, odd);
  const double edge = 1.5e9, cap = a.rate_cap.value();
  REQUIRE(cap <= kNic);
  CHECK(played(cluster, a) == Approx(a.latency.value() + edge / cap).epsilon(kExact));
  CHECK(played(cluster, both(a, b)) == Approx(a.latency.value() + edge / std::min(cap, kNic / 2)).epsilon(kExact));
}

TEST_CASE("incast: n senders to one receiver each get an n-th of its NIC, and shares grow as senders finish") {
  const int senders = 7;
  const auto cluster = small_cluster(senders + 1, {1, 1});
  SimGridClock clock(cluster);
  Recorder recorder(clock);
  for (int s = 1; s <= senders; ++s)
    clock.start_flow(s, 0, Bytes{s * 1e8}, kUncapped, 1, 1, static_cast<PlayClock::Token>(s));
  clock.run(recorder);
  // While k senders are left, the next step of 1e8 bytes per sender takes k 1e8 / rate.
  double end = 0;
  for (int s = 1; s <= senders; ++s) {
    end += (senders - s + 1) * 1e8 / kNic;
    CHECK(recorder.time_of(static_cast<PlayClock::Token>(s)) == Approx(end).epsilon(kExact));
  }
}

TEST_CASE("routes of unequal latency and length share a link alike") {
  const auto cluster =
      small_cluster(8, {2, 1}, "fat_tree", {{"nodes_per_leaf", 2}, {"levels", 3}, {"leaves_per_pod", 2}});
  const double in_leaf = cluster.route(0, 2).latency.value(), in_pod = cluster.route(0, 4).latency.value(),
               far = cluster.route(0, 12).latency.value();
  REQUIRE(in_leaf < in_pod);
  REQUIRE(in_pod < far);
  SimGridClock clock(cluster);
  Recorder recorder(clock);
  clock.start_flow(0, 2, Bytes{1e9}, kUncapped, 1, 1, 1);
  clock.start_flow(1, 4, Bytes{1e9}, kUncapped, 1, 1, 2);
  clock.start_flow(0, 12, Bytes{1e9}, kUncapped, 1, 1, 3);
  clock.run(recorder);
  for (PlayClock::Token t : {1, 2, 3}) CHECK(recorder.time_of(t) == Approx(3e9 / kNic).epsilon(kExact));
}

namespace {

constexpr int kPairs = 4;  // Senders in the first pod, receivers in the second.
enum Stream : StreamId { kCompute, kPp };

/// A pipeline of two stages, one replica per node: in each microbatch the first stage computes and sends, the second
/// receives and computes.
HandMade pipelines(std::int64_t message, int microbatches) {
  HandMade made(Axis::pp, 2 * kPairs, {talks(Axis::pp)});
  for (std::size_t r = 0; r < 2 * kPairs; ++r) made.program.device_of_rank[r] = static_cast<int>(8 * r);
  const int work = made.tensor(1'000'000'000), data = made.tensor(message);
  const int compute = made.body("compute", {HandMade::copies(work)});
  for (int r = 0; r < kPairs; ++r) {
    const int send =
        made.body(fmt::format("send{}", r), {made.message(P2pTask::Direction::send, r + kPairs, data, kPp)});
    const int receive =
        made.body(fmt::format("receive{}", r), {made.message(P2pTask::Direction::receive, r, data, kPp)});
    for (int m = 0; m < microbatches; ++m) {
      const EventId done = made.call(r, compute, {}, true);
      made.call(r, send, {Wait{done}}, false, kPp);
      const EventId here = made.call(r + kPairs, receive, {}, true, kPp);
      made.call(r + kPairs, compute, {Wait{here}});
    }
  }
  return made;
}

NetworkSpec pods(double ratio) {
  NetworkSpec n = shipped_network("ib_hdr");
  n.parameters = {{"levels", 2}, {"nodes_per_leaf", kPairs}, {"oversubscription", ratio}};
  return n;
}

}  // namespace

TEST_CASE("a pipeline between pods at 16:1 takes what the shared uplinks take") {
  const int microbatches = 6;
  const std::int64_t message = 400'000'000;
  const HandMade made = pipelines(message, microbatches);
  RunOptions every_rank;
  every_rank.fold = false;
  for (const double ratio : {1.0, 16.0, 64.0}) {
    INFO(ratio << ":1");
    const Testbed bed(machines_on(2 * kPairs, pods(ratio)));
    const auto alone = bed.cost.collectives().send(Bytes{double(message)}, 0, 8 * kPairs);
    // All senders are in step. The leaf's uplinks carry its 4 x 8 NICs of 25 GB/s over the ratio.
    const double uplinks = kPairs * 8 * 25e9 / ratio, rate = std::min(alone.bandwidth.value(), uplinks / kPairs);
    const double moving = alone.latency.value() + double(message) / rate;
    const Program& p = made.program;
    const double compute = bed.cost.price_body(p, p.bodies.at(0), 0, p.mesh.context(0)).duration.value();
    REQUIRE(moving > compute);
    const RunResult run = flow_level(bed, p, every_rank);
    CHECK(run.step_time.value() == Approx(2 * compute + microbatches * moving).epsilon(kExact));
  }
}

namespace {

/// Jobs on 64 GPUs: every axis that may be folded, beside every other.
std::vector<Scene> jobs_on_64() {
  return {
      scene("tp 8, dp 8", 8, 8, 1),
      scene("tp 8, pp 8", 1, 8, 8),
      scene("tp 8, pp 4, dp 2", 2, 8, 4,
            [](auto& s) {
              s.placement = {"tp", "pp", "dp"};
            }),
      scene("tp 4, pp 4, dp 4", 4, 4, 4),
      scene("tp 2, pp 8, dp 4, zero 1", 4, 2, 8, [](auto& s) { s.zero_stage = 1; }),
      scene("tp 4, pp 2, dp 8, sequence parallel", 8, 4, 2, [](auto& s) { s.sequence_parallel = true; }),
  };
}

}  // namespace

TEST_CASE("folded = unfolded on 64 GPUs, on full and on oversubscribed fabrics, wherever folding is claimed") {
  RunOptions every_rank;
  every_rank.fold = false;
  for (const double ratio : {1.0, 16.0})
    for (const Scene& s : jobs_on_64()) {
      INFO(s.name << " at " << ratio << ":1");
      const Testbed bed(machines_on(s.nodes, pods(ratio)));
      const Program p = s.job.lower();
      const RunResult folded = flow_level(bed, p), unfolded = flow_level(bed, p, every_rank);
      CHECK(folded.folded);
      CHECK(folded.ranks.size() < unfolded.ranks.size());
      CHECK(unfolded.step_time.value() == Approx(folded.step_time.value()).epsilon(kExact));
    }
}

TEST_CASE("lanes are not folded where a tensor-parallel group crosses nodes: its ranks do not share wires alike") {
  const Scene s = scene("tp 16", 4, 16, 1);
  const Testbed bed(machines_on(8, pods(1)));
  const Program p = s.job.lower();
  RunOptions every_rank;
  every_rank.fold = false;
  const RunResult run = flow_level(bed, p), each = flow_level(bed, p, every_rank);
  CHECK(run.folding.find("tensor-parallel") == std::string::npos);
  CHECK(each.folding == "every rank is played");
  CHECK(run.step_time.value() == Approx(each.step_time.value()).epsilon(kExact));
}
