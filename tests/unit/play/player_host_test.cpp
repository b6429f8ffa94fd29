// What the host does between kernels: waits, captured graphs, and two calls issued in turn.

#include "core/base/error.hpp"
#include "core/play/player/player.hpp"
#include "core/program/body.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hand_made.hpp"
#include "tests/support/testbed.hpp"

using namespace rehearse;
using namespace rehearse::testing;

namespace {

constexpr std::int64_t kPlayerHostBytes = 1'000'000'000'000;  // A second or so: far above launches.
constexpr std::int64_t kSmall = 1'000'000;                    // About a launch.

const Testbed& bed_player_host() {
  static const Testbed one(1);
  return one;
}

double step(const Program& p, const RunOptions& options = {}) {
  return bed_player_host().analytic(p, options).step_time.value();
}

double copy_time(std::int64_t bytes = kPlayerHostBytes) {
  HandMade made(Axis::pp, 1);
  made.call(0, made.body("copy", {HandMade::copies(made.tensor(bytes))}));
  return step(made.program);
}

double launch(const Program& p) { return bed_player_host().cost.launch_overhead(p, 0).value(); }

}  // namespace

TEST_CASE("after a call that the host waits for, nothing starts before it has ended and a launch is over") {
  HandMade made(Axis::pp, 1, {aside("aside")});
  const int data = made.tensor(kPlayerHostBytes);
  const int copy = made.body("copy", {HandMade::copies(data)}), aside = made.body("aside", {HandMade::copies(data, 1)});
  made.call(0, copy);
  made.call(0, aside, {}, false, 1);
  CHECK(step(made.program) == Approx(copy_time()));  // Side by side.
  made.program.roles[0].step[0].host_wait = true;
  const RunResult run = bed_player_host().analytic(made.program);
  CHECK(run.step_time.value() == Approx(2 * copy_time() + launch(made.program)).epsilon(1e-12));
  // What was issued before runs on.
  made.program.roles[0].step[0].host_wait = false;
  made.program.roles[0].step[1].host_wait = true;
  CHECK(step(made.program) == Approx(copy_time()));
}

TEST_CASE("the launch after a host wait counts as launch, the wait itself as what was waited for") {
  HandMade made(Axis::pp, 2, {talks(Axis::pp)});
  const int data = made.tensor(kPlayerHostBytes), small = made.tensor(kSmall);
  const int send = made.body("send", {made.message(P2pTask::Direction::send, 1, small, 1)});
  const int receive = made.body("receive", {made.message(P2pTask::Direction::receive, 0, small, 1)});
  const int copy = made.body("copy", {HandMade::copies(data)});
  made.call(0, send, {}, false, 1);
  made.call(1, receive, {}, false, 1);
  made.last_call(1).host_wait = true;
  made.call(1, copy);
  const RunResult run = bed_player_host().analytic(made.program);
  const double message = bed_player_host().cost.collectives().send(Bytes{kSmall}, 0, 1).time.value();
  CHECK(run.step_time.value() == Approx(message + launch(made.program) + copy_time()).epsilon(1e-12));
  CHECK(run.ranks.at(1).breakdown[TimeCategory::launch].value() == Approx(launch(made.program)).epsilon(1e-6));
  CHECK(run.ranks.at(1).breakdown[TimeCategory::exposed_pp].value() == Approx(message).epsilon(1e-6));
}

TEST_CASE(
    "a task that the host waits for holds what is issued after it, in its body and in later ones, not what was "
    "before") {
  HandMade made(Axis::pp, 1, {aside("a"), aside("b")});
  const int data = made.tensor(kPlayerHostBytes);
  const int body = made.body("counts", {HandMade::copies(data, 1), HandMade::copies(data), HandMade::copies(data, 2)});
  made.call(0, body);
  CHECK(step(made.program) == Approx(copy_time()));
  made.program.bodies[0].graph[1].host_wait = true;
  CHECK(step(made.program) == Approx(2 * copy_time()));
  made.call(0, made.body("later", {HandMade::copies(data, 1)}), {}, false, 1);
  CHECK(step(made.program) == Approx(2 * copy_time()));
}

TEST_CASE("a captured graph is one launch, however many kernels it holds") {
  constexpr int kKernels = 8;
  HandMade made(Axis::pp, 1);
  const int small = made.tensor(kSmall);
  const int body = made.body("kernels", std::vector<Piece>(kKernels, HandMade::copies(small)));
  for (int i = 0; i < 4; ++i) made.call(0, body);
  const double eager = step(made.program);
  CHECK(eager >= 4 * kKernels * launch(made.program));  // The host is slower than these kernels.
  for (Entry& e : made.program.roles[0].step) e.graph = 0;
  const double one = step(made.program);
  for (std::size_t i = 0; i < 4; ++i) made.program.roles[0].step[i].graph = static_cast<std::int32_t>(i / 2);
  const double two = step(made.program);
  CHECK(one < two);
  CHECK(two < eager);
  // Kernels alone, and one launch that they all but hide.
  const PricedBody kernels =
      bed_player_host().cost.price_body(made.program, made.program.bodies[0], 0, made.program.mesh.context(0), 0);
  CHECK(kernels.breakdown[TimeCategory::launch].value() == 0);
  CHECK(one >= 4 * kernels.duration.value());
  CHECK(one <= 4 * kernels.duration.value() + launch(made.program));
}

TEST_CASE("interleaved calls issue their segments in turn, so that one's kernels hide the other's communication") {
  // Each call: kernel, then a copy off the compute stream as long, then a kernel that needs it.
  HandMade made(Axis::pp, 1, {aside("other")});
  const int data = made.tensor(kPlayerHostBytes);
  Piece middle = HandMade::copies(data, 1), last = HandMade::copies(data);
  middle.after = {0};
  last.after = {1};
  const int body = made.body("half", {HandMade::copies(data), middle, last});
  made.program.bodies[0].segments = {0, 2};
  made.call(0, body);
  made.call(0, body);
  CHECK(step(made.program) == Approx(6 * copy_time()));
  auto& calls = made.program.roles[0].step;
  calls[0].interleave = 1;
  calls[1].interleave = 0;
  // k0 k0' | k1 k1': the copies run beside the second kernels.
  CHECK(step(made.program) == Approx(4 * copy_time()));
  SECTION("without segments one follows the other") {
    made.program.bodies[0].segments.clear();
    CHECK(step(made.program) == Approx(6 * copy_time()));
  }
  SECTION("a call whose partner is skipped is played alone") {
    calls[1].predicate = ExprPool::kZero;
    CHECK(step(made.program) == Approx(3 * copy_time()));
  }
  SECTION("neighbours that don't name each other are refused") {
    calls[1].interleave = -1;
    CHECK_THROWS_AS(step(made.program), Error);
  }
  SECTION("a call cannot wait for the one it is interleaved with") {
    Role& role = made.program.roles[0];
    calls[0].record = role.events++;
    calls[1].first_wait = static_cast<std::int32_t>(role.waits.size());
    calls[1].wait_count = 1;
    role.waits.push_back({calls[0].record});
    CHECK_THROWS_AS(step(made.program), Error);
  }
}

TEST_CASE("of two interleaved calls the second begins: what it sends first leaves beside the other's first kernel") {
  // A forward: kernel, exchange, kernel. A backward: exchange, kernel, exchange, kernel. All take as long, each needs
  // the one before.
  HandMade made(Axis::pp, 1, {aside("exchanges")});
  const int data = made.tensor(kPlayerHostBytes);
  const auto chain = [&](std::vector<StreamId> streams) {
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      pieces.push_back(HandMade::copies(data, streams[i]));
      if (i > 0) pieces.back().after = {static_cast<int>(i) - 1};
    }
    return pieces;
  };
  const int forward = made.body("forward", chain({0, 1, 0})), backward = made.body("backward", chain({1, 0, 1, 0}));
  made.program.bodies[0].segments = {2};
  made.program.bodies[1].segments = {1, 3};
  const auto pair = [&](int first, int second) {
    HandMade both = made;
    both.call(0, first);
    both.call(0, second);
    both.program.roles[0].step[0].interleave = 1;
    both.program.roles[0].step[1].interleave = 0;
    return step(both.program);
  };
  CHECK(pair(forward, backward) == Approx(4 * copy_time()));
  CHECK(pair(backward, forward) == Approx(6 * copy_time()));
}

TEST_CASE("a run reports how far it is, and what the report throws ends it") {
  HandMade made(Axis::pp, 1, {aside("aside")});
  const int data = made.tensor(kSmall);
  const int copy = made.body("copy", {HandMade::copies(data)}), aside = made.body("aside", {HandMade::copies(data, 1)});
  EventId before = -1;
  for (int i = 0; i < 20'000; ++i) {  // Calls that can't be joined.
    before = made.call(0, i % 2 == 0 ? copy : aside, before < 0 ? std::vector<Wait>{} : std::vector<Wait>{{before}},
                       true, static_cast<StreamId>(i % 2));
  }
  RunOptions options;
  std::vector<RunProgress> seen;
  options.progress = [&](const RunProgress& now) { seen.push_back(now); };
  (void)step(made.program, options);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].all == 20'000);
  CHECK(seen[0].done < seen[0].all);
  CHECK(seen[0].simulated > Seconds{0});
  struct Enough {};
  options.progress = [](const RunProgress&) { throw Enough(); };
  CHECK_THROWS_AS(step(made.program, options), Enough);
}
