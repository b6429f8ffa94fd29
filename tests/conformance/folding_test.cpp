// Ranks played as one where they are alike, told apart where they are not, and exact either way, contention included.

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/play/player/wires.hpp"
#include "sim/simgrid_clock.hpp"
#include "tests/conformance/scenes.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::testing;

namespace {

struct FoldedAndEach {
  RunResult folded, each;
};

FoldedAndEach both_ways(const Testbed& bed, const Program& p, bool all_flows = false) {
  const auto with = [&](bool fold) {
    sim::SimGridClock clock(bed.cluster);
    RunOptions options;
    options.fold = fold;
    options.all_flows = all_flows;
    return bed.play_on(clock, p, options);
  };
  return {with(true), with(false)};
}

void check_same(const FoldedAndEach& runs) {
  CHECK(runs.folded.step_time.value() == Approx(runs.each.step_time.value()).epsilon(1e-9));
  for (const RankMetrics& f : runs.folded.ranks)
    for (std::size_t c = 0; c < f.breakdown.seconds.size(); ++c)
      CHECK(
          f.breakdown.seconds[c].value() ==
          Approx(nth(runs.each.ranks, f.rank).breakdown.seconds[c].value()).margin(1e-9 * runs.each.step_time.value()));
  REQUIRE(runs.folded.link_bytes.size() == runs.each.link_bytes.size());
  for (std::size_t l = 0; l < runs.each.link_bytes.size(); ++l)
    CHECK(runs.folded.link_bytes[l] == Approx(runs.each.link_bytes[l]).epsilon(1e-9));
}

NetworkSpec two_levels(int nodes_per_leaf, double oversubscription) {
  NetworkSpec n = shipped_network("ib_hdr");
  n.parameters = {{"levels", 2}, {"nodes_per_leaf", nodes_per_leaf}, {"oversubscription", oversubscription}};
  return n;
}

Scene experts(int dp, int pp, int ep) {
  return expert_scene(fmt::format("dp {}, pp {}, ep {}", dp, pp, ep), dp, 1, pp, ep);
}

}  // namespace

TEST_CASE("experts whose exchanges are symmetric are one actor for each stage") {
  for (const auto& [dp, pp, ep] : {std::tuple(32, 1, 16), std::tuple(16, 2, 16), std::tuple(32, 2, 8)}) {
    const Scene s = experts(dp, pp, ep);
    INFO(s.name);
    const Testbed bed(machines_on(s.nodes, two_levels(2, 1)), only("Ring"));
    const FoldedAndEach runs = both_ways(bed, s.job.lower());
    CHECK(runs.folded.ranks.size() == static_cast<std::size_t>(pp));
    CHECK(runs.each.ranks.size() == static_cast<std::size_t>(dp * pp));
    check_same(runs);
  }
}

TEST_CASE("on an oversubscribed fabric nodes under unlike leaves are told apart, and contention is exact") {
  // Three nodes under one leaf and one under the other.
  const Scene s = experts(32, 1, 16);
  const Testbed bed(machines_on(s.nodes, two_levels(3, 16)), only("Ring"));
  const FoldedAndEach runs = both_ways(bed, s.job.lower());
  CHECK(runs.folded.ranks.size() >= 1);
  check_same(runs);
  const Testbed full(machines_on(s.nodes, two_levels(3, 1)), only("Ring"));
  CHECK(runs.each.step_time > both_ways(full, s.job.lower()).each.step_time * 1.01);
}

TEST_CASE("a straggler is told apart, and so are those that it reaches by itself") {
  const Scene s = experts(16, 2, 16);
  CostModel::Options slow = only("Ring");
  slow.slowdown = {{5, 1.5}};
  const Testbed bed(machines_on(s.nodes, two_levels(2, 1)), slow);
  const FoldedAndEach runs = both_ways(bed, s.job.lower());
  check_same(runs);
  const auto alone =
      std::find_if(runs.folded.ranks.begin(), runs.folded.ranks.end(), [](const auto& r) { return r.rank == 5; });
  REQUIRE(alone != runs.folded.ranks.end());
  CHECK(alone->stands_for == 1);
  CHECK(runs.folded.ranks.size() < runs.each.ranks.size());
}

TEST_CASE("a slower link tells apart whose flows cross it") {
  const Scene s = experts(32, 2, 16);
  for (const bool all_flows : {false, true}) {
    Cluster cluster = machines_on(s.nodes, two_levels(2, 1));
    REQUIRE(cluster.scale_links("node1/NIC0>*", 0.25) > 0);
    const Testbed bed(std::move(cluster), only("Ring"));
    const FoldedAndEach runs = both_ways(bed, s.job.lower(), all_flows);
    check_same(runs);
    CHECK(runs.folded.ranks.size() > 2);
    CHECK(runs.folded.ranks.size() < runs.each.ranks.size());
    const Testbed whole(machines_on(s.nodes, two_levels(2, 1)), only("Ring"));
    CHECK(runs.folded.step_time > both_ways(whole, s.job.lower(), all_flows).folded.step_time);
  }
}

TEST_CASE("links of switches are spare on a fabric of full bisection, and not on an oversubscribed one") {
  for (const double ratio : {1.0, 2.0}) {
    INFO(ratio);
    const Cluster cluster = machines_on(8, two_levels(2, ratio));
    Wires wires(cluster);
    std::vector<PlayClock::Flow> flows;
    for (DeviceId from = 0; from < 64; ++from)
      for (DeviceId to = 0; to < 64; ++to)
        if (from != to) flows.push_back({from, to, Bytes{1e6}, BytesPerSecond{1e9}});
    REQUIRE(wires.add(flows, 1, 0));
    wires.find_spare();
    int trunks = 0;
    for (std::size_t l = 0; l < wires.links().size(); ++l) {
      const std::string name = cluster.link(wires.links()[l]).name;
      if (name.starts_with("node") || name.find(">node") != std::string::npos) continue;
      ++trunks;
      INFO(name);
      CHECK(wires.spare(static_cast<Wires::Index>(l)) == (ratio == 1));
    }
    CHECK(trunks > 0);
    // Something is left on every flow's way: a spare link is held by others.
    for (const Wires::Flow& flow : wires.flows()) {
      const auto crossed = wires.crossings(flow);
      CHECK(std::any_of(crossed.begin(), crossed.end(), [&](const auto& c) { return !wires.spare(c.link); }));
    }
  }
}

TEST_CASE("a trace of folded ranks has the spans of every rank that was asked for") {
  const Scene s = experts(16, 2, 16);
  const Testbed bed(machines_on(s.nodes, two_levels(2, 1)), only("Ring"));
  const Program p = s.job.lower();
  const auto trace_of = [&](bool fold) {
    Trace trace({0, 9, 17, 30});
    sim::SimGridClock clock(bed.cluster);
    RunOptions options;
    options.fold = fold;
    (void)play(p, bed.cluster, bed.cost, options, trace, clock, "test");
    std::sort(trace.spans.begin(), trace.spans.end(), [](const Span& a, const Span& b) {
      return std::tuple(a.rank, a.stream, a.layer, a.microbatch, a.kind, a.name, a.begin) <
             std::tuple(b.rank, b.stream, b.layer, b.microbatch, b.kind, b.name, b.begin);
    });
    return trace;
  };
  const Trace folded = trace_of(true), each = trace_of(false);
  REQUIRE(folded.spans.size() == each.spans.size());
  std::map<std::int64_t, int> ends;
  for (std::size_t i = 0; i < each.spans.size(); ++i) {
    const Span &a = folded.spans[i], &b = each.spans[i];
    REQUIRE(std::tuple(a.rank, a.stream, a.name, a.kind, a.group_size) ==
            std::tuple(b.rank, b.stream, b.name, b.kind, b.group_size));
    CHECK(a.begin.value() == Approx(b.begin.value()).margin(1e-9));
    CHECK(a.end.value() == Approx(b.end.value()).margin(1e-9));
    if (a.message >= 0) ++ends[a.message];
  }
  for (const auto& [message, count] : ends) CHECK(count <= 2);
}
