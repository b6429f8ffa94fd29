// Flow-level play against analytic play: equal where no link is shared, never faster, slower where flows contend.

#include "sim/simgrid_clock.hpp"
#include "tests/conformance/books.hpp"
#include "tests/conformance/scenes.hpp"

using namespace rehearse;
using namespace rehearse::testing;

namespace {

RunResult flow_level(const Testbed& bed, const Program& p, const RunOptions& options = {}) {
  sim::SimGridClock clock(bed.cluster);
  return checked_play(bed, clock, p, options);
}

void check_equal(const Scene& s, const std::string& network = "selene") {
  INFO(s.name << " on " << network);
  const Testbed bed(s.nodes, network);
  const Program p = s.job.lower();
  const RunResult alone = bed.analytic(p), shared = flow_level(bed, p);
  CHECK(shared.step_time.value() == Approx(alone.step_time.value()).epsilon(1e-9));
  for (std::size_t r = 0; r < alone.ranks.size(); ++r)
    for (std::size_t c = 0; c < alone.ranks[r].breakdown.seconds.size(); ++c)
      CHECK(shared.ranks[r].breakdown.seconds[c].value() ==
            Approx(alone.ranks[r].breakdown.seconds[c].value()).margin(1e-9 * alone.step_time.value()));
}

NetworkSpec oversubscribed(double ratio) {
  NetworkSpec n = shipped_network("ib_hdr");
  n.parameters = {{"levels", 2}, {"nodes_per_leaf", 2}, {"oversubscription", ratio}};
  return n;
}

}  // namespace

TEST_CASE("flow-level play equals analytic play where no link is shared") {
  check_equal(scene("one way at a time: gpipe", 1, 8, 4, [](auto& s) { s.schedule = "gpipe"; }));
  check_equal(scene("two stages: each sends one way", 1, 8, 2));
  check_equal(scene("two stages, blocking", 1, 8, 2, [](auto& s) { s.overlap.pp = false; }));
  check_equal(scene("two stages, split messages", 1, 8, 2, [](auto& s) { s.scatter_gather = true; }));
  check_equal(scene("rings on rails of their own", 4, 8, 1));
  check_equal(scene("rings on rails of their own", 2, 8, 1), "single_switch");
  check_equal(scene("rings without overlap", 3, 8, 1, [](auto& s) { s.overlap.grad_reduce = false; }));
  check_equal(scene("zero 1", 4, 8, 1, [](auto& s) { s.zero_stage = 1; }));
  check_equal(scene("one ring over every GPU", 16, 1, 1), "single_switch");
}

TEST_CASE("flow-level play is never faster than analytic play") {
  for (const Scene& s : scenes()) {
    INFO(s.name);
    const Testbed bed(s.nodes);
    const Program p = s.job.lower();
    CHECK(flow_level(bed, p).step_time >= bed.analytic(p).step_time * (1 - 1e-9));
  }
}

TEST_CASE("stages whose gradients cross one leaf's uplinks slow each other down") {
  Scene s = scene("two stages, four replicas", 4, 8, 2, [](auto& t) {
    t.placement = {"tp", "pp", "dp"};  // Both stages of a replica on one leaf: their rings leave it together.
    t.overlap.grad_reduce = false;
  });
  const Program p = s.job.lower();
  double before = 0;
  for (const double ratio : {1.0, 4.0, 16.0}) {
    INFO(ratio << ":1");
    const Testbed bed(machines_on(s.nodes, oversubscribed(ratio)));
    const double alone = bed.analytic(p).step_time.value(), shared = flow_level(bed, p).step_time.value();
    if (ratio == 1)
      CHECK(shared == Approx(alone).epsilon(0.01));  // Only messages and gradients of one NIC meet.
    else
      CHECK(shared > alone * 1.01);
    CHECK(shared > before);
    before = shared;
  }
}

TEST_CASE("folded play equals unfolded play flow by flow") {
  RunOptions every_rank;
  every_rank.fold = false;
  for (const Scene& s : scenes()) {
    INFO(s.name);
    const Testbed bed(s.nodes);
    const Program p = s.job.lower();
    CHECK(flow_level(bed, p).step_time.value() ==
          Approx(flow_level(bed, p, every_rank).step_time.value()).epsilon(1e-9));
  }
}

TEST_CASE("folded play equals unfolded play where lanes share a NIC") {
  RunOptions every_rank;
  every_rank.fold = false;
  const Scene s = scene("pipeline", 1, 8, 2);
  const Testbed bed(machines_on(2, shipped_network("ib_edr"), "dgx1v"));
  const Program p = s.job.lower();
  CHECK(flow_level(bed, p).step_time.value() == Approx(flow_level(bed, p, every_rank).step_time.value()).epsilon(1e-9));
}
