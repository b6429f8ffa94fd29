#include "core/play/player/player.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/hand_made.hpp"
#include "tests/support/testbed.hpp"

using namespace rehearse;
using namespace rehearse::testing;

namespace {

constexpr std::int64_t kPlayerBytes = 1'000'000'000'000;  // A second or so: far above latencies and launches.

const Testbed& bed_player() {
  static const Testbed one(1);
  return one;
}

/// Seconds that HandMade::copies of kBytes takes.
double copy_time_alone() {
  HandMade made(Axis::pp, 1);
  made.call(0, made.body("copy", {HandMade::copies(made.tensor(kPlayerBytes))}));
  return bed_player().analytic(made.program).step_time.value();
}

double message_time(std::int64_t bytes) {
  return bed_player().cost.collectives().send(Bytes{static_cast<double>(bytes)}, 0, 1).time.value();
}

/// Steps, in copies.
double copies_in(const Program& p) { return bed_player().analytic(p).step_time.value() / copy_time_alone(); }

std::vector<Span> spans_of(const Program& p, const RunOptions& options = {}) {
  Trace trace({0, 1, 2, 3});
  AnalyticClock clock(bed_player().cluster);
  play(p, bed_player().cluster, bed_player().cost, options, trace, clock, "test");
  return trace.spans;
}

/// Makes a body one whose tasks are played one by one: a collective of a single rank on stream "dp" takes no time.
Piece opener(HandMade& made, StreamId dp) { return HandMade::all_reduce(made.tensor(8), dp); }

}  // namespace

TEST_CASE("calls on one stream follow each other, calls on two run side by side, waits cross streams") {
  HandMade made(Axis::pp, 1, {aside("second")});
  const int data = made.tensor(kPlayerBytes);
  const int first = made.body("first", {HandMade::copies(data)}),
            second = made.body("second", {HandMade::copies(data, 1)});
  made.call(0, first);
  made.call(0, first);
  CHECK(copies_in(made.program) == Approx(2));
  made.call(0, second, {}, false, 1);
  CHECK(copies_in(made.program) == Approx(2));
  const EventId done = made.call(0, first, {}, true);
  made.call(0, second, {{done}}, false, 1);
  CHECK(copies_in(made.program) == Approx(4));
}

TEST_CASE("a message takes as long as the collective model says, and holds neither end's kernels") {
  HandMade made(Axis::pp, 2, {talks(Axis::pp)});
  const int data = made.tensor(kPlayerBytes), small = made.tensor(1'000'000);
  const int send = made.body("send", {made.message(P2pTask::Direction::send, 1, small, 1)});
  const int receive = made.body("receive", {made.message(P2pTask::Direction::receive, 0, small, 1)});
  made.call(0, send, {}, false, 1);
  const EventId got = made.call(1, receive, {}, true, 1);
  CHECK(bed_player().analytic(made.program).step_time.value() == Approx(message_time(1'000'000)));
  const int copy = made.body("copy", {HandMade::copies(data)});
  made.call(0, copy);
  made.call(1, copy, {{got}});
  CHECK(bed_player().analytic(made.program).step_time.value() == Approx(copy_time_alone() + message_time(1'000'000)));
}

TEST_CASE("messages of one channel meet in order") {
  HandMade made(Axis::pp, 2, {talks(Axis::pp)});
  const int data = made.tensor(kPlayerBytes), small = made.tensor(1'000);
  const int send = made.body("send", {made.message(P2pTask::Direction::send, 1, small, 1)});
  const int receive = made.body("receive", {made.message(P2pTask::Direction::receive, 0, small, 1)});
  const int copy = made.body("copy", {HandMade::copies(data)});
  for (int i = 0; i < 3; ++i) made.call(0, send, {{made.call(0, copy, {}, true)}}, false, 1);
  for (int i = 0; i < 3; ++i) made.call(1, copy, {{made.call(1, receive, {}, true, 1)}});
  CHECK(copies_in(made.program) == Approx(4).epsilon(1e-3));
}

TEST_CASE("dependencies pass through tasks that are skipped, and so do the waits of a call") {
  HandMade made(Axis::pp, 1, {talks(Axis::dp_shard), aside("b")});
  const int data = made.tensor(kPlayerBytes);
  Piece skipped = HandMade::copies(data, 1), last = HandMade::copies(data, 2);
  skipped.after = {0};
  skipped.predicate = ExprPool::kZero;
  last.after = {1};
  SECTION("from task to task") {
    made.call(0, made.body("chain", {HandMade::copies(data), skipped, last, opener(made, 1)}));
    CHECK(copies_in(made.program) == Approx(2));
  }
  SECTION("from the call's wait to the first task that runs") {
    const EventId done = made.call(0, made.body("before", {HandMade::copies(data)}), {}, true);
    Piece first = HandMade::copies(data, 1);
    first.predicate = ExprPool::kZero;
    made.call(0, made.body("waits", {first, HandMade::copies(data, 1), opener(made, 1)}), {{done}}, false, 1);
    CHECK(copies_in(made.program) == Approx(2));
  }
}

TEST_CASE("waits and marks of single tasks hold only those") {
  HandMade made(Axis::pp, 1, {aside("a")});
  const int data = made.tensor(kPlayerBytes);
  const int two = made.body("two", {HandMade::copies(data), HandMade::copies(data)}),
            aside = made.body("aside", {HandMade::copies(data, 1)});
  Role& role = made.program.roles[0];
  SECTION("a mark comes before the end of its body") {
    made.call(0, two);
    made.last_call(0).first_mark = 0;
    made.last_call(0).mark_count = 1;
    role.marks.push_back({role.events++, 0});
    made.call(0, aside, {{0}}, false, 1);
    CHECK(copies_in(made.program) == Approx(2));
  }
  SECTION("a wait holds its task, not those before it") {
    const EventId done = made.call(0, aside, {}, true, 1);
    made.call(0, two, {{done, 0, 1}});
    CHECK(copies_in(made.program) == Approx(2));
  }
  SECTION("without them the whole body counts") {
    const EventId done = made.call(0, aside, {}, true, 1);
    made.call(0, two, {{done}});
    CHECK(copies_in(made.program) == Approx(3));
  }
}

TEST_CASE("what a call does may depend on its microbatch and layer") {
  HandMade made(Axis::pp, 1);
  ExprPool& e = made.program.exprs;
  Piece piece = HandMade::copies(made.tensor(kPlayerBytes));
  piece.predicate = e.apply(ExprOp::eq, e.variable(Var::microbatch), e.constant(1));
  Piece other = HandMade::copies(made.tensor(3 * kPlayerBytes));
  other.predicate = e.apply(ExprOp::eq, e.variable(Var::layer), e.constant(2));
  const int body = made.body("sometimes", {piece, other});
  for (int microbatch = 0; microbatch < 4; ++microbatch) {
    made.call(0, body);
    made.last_call(0).microbatch = microbatch;
    made.last_call(0).layer = microbatch;
  }
  CHECK(copies_in(made.program) == Approx(4));
}

TEST_CASE("ranks of one role whose peers depend on where they are talk to their own neighbours") {
  constexpr int kRanks = 4;
  HandMade made(Axis::cp, kRanks, {talks(Axis::cp)});
  ExprPool& e = made.program.exprs;
  const int data = made.tensor(1'000'000);
  const auto neighbour = [&](int step) {
    return e.apply(ExprOp::mod, e.apply(ExprOp::add, e.coord(Axis::cp), e.constant(step)), e.constant(kRanks));
  };
  Piece send = made.message(P2pTask::Direction::send, 0, data, 1),
        receive = made.message(P2pTask::Direction::receive, 0, data, 0);
  std::get<P2pTask>(send.kind).peer = neighbour(1);
  std::get<P2pTask>(receive.kind).peer = neighbour(kRanks - 1);
  made.call(0, made.body("ring", {send, receive}));
  made.program.role_of_rank.assign(kRanks, 0);
  const RunResult run = bed_player().analytic(made.program);
  CHECK(run.flows == kRanks);
  CHECK(run.step_time.value() == Approx(message_time(1'000'000)));
}

TEST_CASE("the step time of several steps is that of the last, and waits reach back over steps") {
  HandMade made(Axis::pp, 1, {aside("a")});
  const int data = made.tensor(kPlayerBytes);
  const int aside = made.body("aside", {HandMade::copies(data, 1)}), copy = made.body("copy", {HandMade::copies(data)});
  made.call(0, copy);
  made.call(0, aside, {}, true, 1);
  RunOptions three;
  three.steps = 3;
  CHECK(bed_player().analytic(made.program, three).step_time.value() == Approx(copy_time_alone()));
  // The next step's kernel waits for this step's copy on the other stream, which waits for this step's kernel.
  made.program.roles[0] = {};
  made.program.roles[0].events = 1;
  const EventId done = made.call(0, copy, {{0, 1}}, true);
  made.call(0, aside, {{done}}, false, 1);
  made.last_call(0).record = 0;
  CHECK(bed_player().analytic(made.program).step_time.value() == Approx(2 * copy_time_alone()));
  CHECK(bed_player().analytic(made.program, three).step_time.value() == Approx(2 * copy_time_alone()));
  // Two steps back leaves one step of slack.
  made.program.roles[0].waits[0].steps_back = 2;
  RunOptions five;
  five.steps = 5;
  CHECK(bed_player().analytic(made.program, five).step_time.value() == Approx(copy_time_alone()));
}

TEST_CASE("calls in a row on the compute stream are one operation with a span each") {
  HandMade made(Axis::pp, 1);
  const int copy = made.body("copy", {HandMade::copies(made.tensor(kPlayerBytes))});
  for (int i = 0; i < 5; ++i) made.call(0, copy);
  CHECK(bed_player().analytic(made.program).tasks == 1);
  const auto spans = spans_of(made.program);
  REQUIRE(spans.size() == 5);
  for (std::size_t i = 0; i < spans.size(); ++i)
    CHECK(spans[i].begin.value() == Approx(static_cast<double>(i) * copy_time_alone()).margin(1e-9));
}

TEST_CASE("a rank that waits for another's kernel is idle, and exposed only while bytes move") {
  HandMade made(Axis::pp, 2, {talks(Axis::pp)});
  const int data = made.tensor(kPlayerBytes);
  const int copy = made.body("copy", {HandMade::copies(data)});
  const int send = made.body("send", {made.message(P2pTask::Direction::send, 1, data, 1)});
  const int receive = made.body("receive", {made.message(P2pTask::Direction::receive, 0, data, 1)});
  made.call(0, send, {{made.call(0, copy, {}, true)}}, false, 1);
  made.call(1, copy, {{made.call(1, receive, {}, true, 1)}});
  const RunResult run = bed_player().analytic(made.program);
  const Breakdown& b = run.ranks.at(1).breakdown;
  CHECK(b[TimeCategory::bubble].value() == Approx(copy_time_alone()));
  CHECK(b[TimeCategory::exposed_pp].value() == Approx(message_time(kPlayerBytes)));
  CHECK(b[TimeCategory::memory_bound].value() == Approx(copy_time_alone()));
  CHECK(run.slowest == 1);
}
