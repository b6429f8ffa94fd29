// A kernel beside a collective slows down by one rule, whether its body is priced as a whole or played task by task.

#include "core/program/body.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hand_made.hpp"
#include "tests/support/testbed.hpp"

using namespace rehearse;
using namespace rehearse::testing;

namespace {

enum Stream : StreamId { kCompute, kTp, kDp };
constexpr int kRanks = 4;

struct Sizes {
  std::int64_t kernel, reduced;
};

/// On every rank a kernel that runs from the start beside a collective that begins after a first kernel.
/// Collectives on stream "tp" stay inside the priced body; those on "dp" are played.
HandMade beside(const Sizes& sizes, StreamId stream) {
  HandMade made(Axis::tp, kRanks, {talks(Axis::tp), talks(Axis::dp_shard)});
  const int small = made.tensor(1'000'000'000), large = made.tensor(sizes.kernel), reduced = made.tensor(sizes.reduced);
  Piece collective = HandMade::all_reduce(reduced, stream);
  collective.after = {0};
  const int body = made.body("beside", {HandMade::copies(small), collective, HandMade::copies(large)});
  for (int r = 0; r < kRanks; ++r) made.call(r, body);
  return made;
}

/// The rule, by hand: the kernel proceeds at `rate` while the collective runs, at 1 afterwards.
double by_hand(const Testbed& bed, const HandMade& made) {
  const Program& p = made.program;
  const Body& body = p.bodies.at(0);
  const auto priced = [&](std::size_t v) { return bed.cost.price(p, body.graph[v], body, 0, p.mesh.context(0)); };
  const double first = priced(0).time.value(), collective = priced(1).time.value(), kernel = priced(2).time.value();
  const Bytes bytes = CostModel::collective_bytes(p, body.graph[1], body, p.mesh.context(0));
  const auto choice = bed.cost.collectives().choose(CollectiveOp::all_reduce, bytes, p.device_of_rank);
  const Interference load =
      bed.cost.interference(CollectiveOp::all_reduce, choice, bytes, kRanks, p.device_of_rank.front());
  const double rate = overlap_rate(priced(2).sm_sensitivity, priced(2).hbm_sensitivity, load);
  REQUIRE(rate < 0.99);
  const double beside =
      kernel / rate <= collective ? std::max(collective, kernel / rate) : kernel + collective * (1 - rate);
  return first + beside;
}

}  // namespace

TEST_CASE("a kernel beside a collective is slowed alike in a priced body and on the player's timers") {
  const Testbed bed(1);
  for (const Sizes sizes : {Sizes{400'000'000'000, 10'000'000'000}, Sizes{4'000'000'000, 100'000'000'000},
                            Sizes{100'000'000'000, 30'000'000'000}}) {
    const HandMade closed = beside(sizes, kTp), open = beside(sizes, kDp);
    RunOptions every_rank;
    every_rank.fold = false;
    const RunResult priced = bed.analytic(closed.program, every_rank), played = bed.analytic(open.program, every_rank);
    CHECK(priced.tasks == kRanks);
    CHECK(played.tasks == 3 * kRanks);
    const double expected = by_hand(bed, closed);
    CHECK(priced.step_time.value() == Approx(expected).epsilon(1e-12));
    CHECK(played.step_time.value() == Approx(expected).epsilon(1e-12));
    for (const TimeCategory c : {TimeCategory::memory_bound, TimeCategory::overlap_slowdown})
      CHECK(played.ranks[0].breakdown[c].value() == Approx(priced.ranks[0].breakdown[c].value()).epsilon(1e-12));
    CHECK(played.ranks[0].breakdown[TimeCategory::exposed_dp].value() ==
          Approx(priced.ranks[0].breakdown[TimeCategory::exposed_tp].value()).epsilon(1e-12).margin(1e-15));
  }
}

TEST_CASE("a collective that nothing computes beside slows nothing") {
  const Testbed bed(1);
  HandMade made(Axis::tp, kRanks, {talks(Axis::tp), talks(Axis::dp_shard)});
  const int data = made.tensor(1'000'000'000);
  Piece collective = HandMade::all_reduce(data, kDp), kernel = HandMade::copies(data);
  kernel.after = {0};
  const int body = made.body("in turn", {collective, kernel});
  for (int r = 0; r < kRanks; ++r) made.call(r, body);
  const RunResult run = bed.analytic(made.program);
  CHECK(run.ranks[0].breakdown[TimeCategory::overlap_slowdown].value() ==
        Approx(0).margin(1e-12 * run.step_time.value()));
  CHECK(run.ranks[0].breakdown[TimeCategory::exposed_dp] > Seconds{0});
}
