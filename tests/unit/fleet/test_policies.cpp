// Small cases of rules, quotas and placements, worked by hand.

#include "core/base/error.hpp"
#include "core/fleet/advise.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/fleet/fleets.hpp"

using namespace rehearse;
using namespace rehearse::fleet;
using testing::ends;
using testing::small_fleet;
using testing::starts;

namespace {

Queue queue(const std::string& name, double guaranteed, const std::string& parent = "") {
  Queue q;
  q.name = name;
  q.guaranteed = guaranteed;
  q.parent = parent;
  return q;
}

/// One node of `gpus` GPUs, jobs of one queue each.
Fleet shared(int gpus, const std::vector<Queue>& queues, const std::vector<std::pair<std::string, testing::Row>>& rows,
             const std::string& quota) {
  Fleet f;
  f.name = "test";
  f.nodes = testing::nodes(1, gpus);
  f.queues = queues;
  for (const auto& [q, r] : rows)
    f.jobs.push_back(testing::job(static_cast<int>(f.jobs.size()), r.arrival, r.duration, r.gpus, q));
  f.policy.quota = quota;
  return f;
}

}  // namespace

TEST_CASE("a job of the whole cluster waits; who may pass it depends on the rule") {
  // 8 GPUs. Job 0 holds 6 until 100; job 1 wants 8; 2 ends by then, 3 does not.
  const std::vector<testing::Row> rows{{0, 100, 6}, {1, 50, 8}, {2, 90, 1}, {3, 200, 1}};
  CHECK(starts(run_fleet(small_fleet(1, 8, rows, "wait"))) == std::vector<double>{0, 100, 150, 150});
  CHECK(starts(run_fleet(small_fleet(1, 8, rows, "skip"))) == std::vector<double>{0, 203, 2, 3});
  CHECK(starts(run_fleet(small_fleet(1, 8, rows, "easy"))) == std::vector<double>{0, 100, 2, 150});
  CHECK(starts(run_fleet(small_fleet(1, 8, rows, "conservative"))) == std::vector<double>{0, 100, 2, 150});
}

TEST_CASE("EASY delays the second in the queue where conservative backfill does not") {
  // 10 GPUs: 0 holds 6 until 10. 1 wants 8 (promised 10 to 20), 2 wants 10 (promised 20). 3 wants 2 for 30 s: with EASY
  // it takes what job 1 leaves and delays job 2; with a promise to each it waits.
  const std::vector<testing::Row> rows{{0, 10, 6}, {1, 10, 8}, {2, 5, 10}, {3, 30, 2}};
  CHECK(starts(run_fleet(small_fleet(1, 10, rows, "easy"))) == std::vector<double>{0, 10, 33, 3});
  CHECK(starts(run_fleet(small_fleet(1, 10, rows, "conservative"))) == std::vector<double>{0, 10, 20, 25});
}

TEST_CASE("an interrupted job does what it lost again, and pays for its restart") {
  Fleet f = small_fleet(1, 1, {{0, 100, 1}, {35, 10, 1}}, "preempt", "shortest");
  f.interruption = {Seconds{5}, Seconds{20}, Seconds{0}};
  const FleetResult r = run_fleet(f);
  // At 35 the first has 20 s in its checkpoint and loses 15; it is back at 45 and works again from 50.
  CHECK(ends(r) == std::vector<double>{130, 45});
  CHECK(r.jobs[0].lost_gpu_seconds == 15);
  CHECK(r.jobs[0].idle_gpu_seconds == 5);
  CHECK(r.account.useful == 110);
  CHECK(r.account.total() == Approx(130));
}

TEST_CASE("checkpoints take time, and one that is not written to its end saves nothing") {
  // 10 s of start, and 5 s of writing after each 20 s of work: none after the last.
  const auto alone = [](double duration) {
    Fleet f = small_fleet(1, 2, {{0, duration, 2}});
    f.interruption = {.restart = Seconds{7}, .checkpoint = Seconds{20}, .start = Seconds{10}, .write = Seconds{5}};
    return f;
  };
  for (const auto& [duration, end] : {std::pair{15.0, 25.0}, {20, 30}, {30, 45}, {40, 55}, {41, 61}, {100, 130}}) {
    CAPTURE(duration);
    const FleetResult r = run_fleet(alone(duration));
    CHECK(r.jobs[0].finished == Seconds{end});
    CHECK(r.account.useful == 2 * duration);
    CHECK(r.account.restarts == Approx(2 * (end - duration)));
  }
  // The first checkpoint is written from 30 to 35, the second from 55 to 60.
  for (const auto& [down, kept, lost] :
       {std::tuple{4.0, 0.0, 0.0}, {29, 0, 19}, {33, 0, 20}, {35, 20, 0}, {40, 20, 5}, {58, 20, 20}, {61, 40, 1}}) {
    CAPTURE(down);
    Fleet f = alone(100);
    f.outages = {{"n0", Seconds{down}, Seconds{70}}};
    const FleetResult r = run_fleet(f);
    const double left = 100 - kept, writes = std::ceil(left / 20) - 1;
    CHECK(r.jobs[0].finished.value() == Approx(70 + 7 + left + 5 * writes));
    CHECK(r.jobs[0].lost_gpu_seconds == Approx(2 * lost));
    CHECK(r.account.useful == Approx(200));
  }
  // A failure in a restart takes nothing away that was saved.
  Fleet f = alone(100);
  f.outages = {{"n0", Seconds{40}, Seconds{70}}, {"n0", Seconds{72}, Seconds{80}}};
  CHECK(run_fleet(f).jobs[0].finished == Seconds{80 + 7 + 80 + 15});
}

TEST_CASE("a node that goes away takes its jobs with it") {
  Fleet f = small_fleet(2, 4, {{0, 100, 8}});
  f.outages = {{"n1", Seconds{40}, Seconds{60}}};
  const FleetResult r = run_fleet(f);
  CHECK(r.jobs[0].finished == Seconds{160});  // From the start again: nothing was saved.
  CHECK(r.jobs[0].failures == 1);
  CHECK(r.account.down == 80);
  CHECK(r.account.lost == 320);
}

TEST_CASE("an elastic job takes what is free, shrinks for others and grows again") {
  Fleet f = small_fleet(1, 8, {{0, 100, 8}, {50, 25, 4}});
  f.jobs[0].request.min_gpus = 2;
  const FleetResult r = run_fleet(f);
  // 50 s on 8 GPUs; while the other holds 4, on 2 (it shrinks to its least); from 75 again on 8.
  CHECK(r.jobs[1].started == Seconds{50});
  CHECK(r.jobs[0].finished.value() == Approx(75 + 50 - 25 * 0.25));
  CHECK(r.jobs[0].resizes == 2);
}

TEST_CASE("a queue borrows what others leave, and they take it back") {
  const auto with = [](const std::string& quota, auto change) {
    Fleet f = shared(8, {queue("a", 4, "all"), queue("b", 4, "all"), queue("all", 0)},
                     {{"a", {0, 100, 4}}, {"a", {0, 100, 4}}, {"b", {10, 20, 4}}}, quota);
    change(f);
    return run_fleet(f);
  };
  const auto as_it_is = [](Fleet&) {};
  CHECK(starts(with("hard", as_it_is)) == std::vector<double>{0, 100, 10});
  const FleetResult r = with("borrowing", as_it_is);
  CHECK(starts(r) == std::vector<double>{0, 0, 10});
  CHECK(ends(r) == std::vector<double>{100, 120, 30});  // The last that started is stopped; its work is kept.
  CHECK(r.jobs[1].preemptions == 1);
  CHECK(starts(with("borrowing", [](Fleet& f) { f.queues[1].reclaim = Reclaim::never; })) ==
        std::vector<double>{0, 0, 100});
  CHECK(starts(with("borrowing", [](Fleet& f) { f.queues[0].borrow = 3; })) == std::vector<double>{0, 100, 10});
  CHECK(starts(with("borrowing", [](Fleet& f) { f.queues[1].lend = 3; })) == std::vector<double>{0, 100, 10});
  CHECK(starts(with("fair", as_it_is)) == std::vector<double>{0, 0, 10});
}

TEST_CASE("Kueue's example of a cohort: what a queue may use is its own and what others lend") {
  // site/content/en/docs/concepts/cluster_queue.md: team-a has 9 and may borrow 1, team-b has 12 and lends 1.
  const auto most = [](const std::string& name, double borrow, double lend) {
    Queue a = queue("team-a", 9, "team-ab"), b = queue("team-b", 12, "team-ab");
    a.borrow = borrow;
    b.lend = lend;
    std::vector<std::pair<std::string, testing::Row>> rows;
    for (int i = 0; i < 21; ++i) rows.push_back({name, {0, 10, 1}});
    const FleetResult r = run_fleet(shared(21, {a, b, queue("team-ab", 0)}, rows, "borrowing"));
    int out = 0;
    for (const JobResult& j : r.jobs) out += j.started == Seconds{0} ? 1 : 0;
    return out;
  };
  CHECK(most("team-a", kUnlimited, kUnlimited) == 21);
  CHECK(most("team-a", 1, kUnlimited) == 10);
  CHECK(most("team-a", kUnlimited, 1) == 10);
  CHECK(most("team-b", 1, kUnlimited) == 21);
}

TEST_CASE("advice names the change for which others pay least") {
  const Fleet f = shared(8, {queue("a", 4, "all"), queue("b", 2, "all"), queue("all", 0)},
                         {{"a", {0, 100, 4}}, {"a", {0, 100, 2}}, {"b", {10, 20, 2}}}, "hard");
  const AdviceAnswer a = advise(f, "a", Seconds{0});
  CHECK(a.wait == Seconds{100});
  REQUIRE(!a.changes.empty());
  CHECK(a.changes.front().enough);
  CHECK(a.changes.front().pays.empty());
  // Two GPUs are nobody's: guaranteed to the queue they are enough, and the least that is.
  const auto guarantee =
      std::find_if(a.changes.begin(), a.changes.end(), [](const Advice& x) { return x.what == "guarantee a 6 GPUs"; });
  REQUIRE(guarantee != a.changes.end());
  CHECK(guarantee->enough);
  CHECK(guarantee->sets == std::vector<std::string>{"queues.0.guaranteed=6"});
  CHECK_THROWS_AS(advise(f, "c", Seconds{0}), Error);
}

TEST_CASE("why a job waits is said") {
  // Two nodes of 4: two jobs of 3 leave 1 + 1, which a job of 2 cannot use.
  const FleetResult r = run_fleet(small_fleet(2, 4, {{0, 10, 3}, {0, 10, 3}, {0, 5, 2}, {0, 5, 8}}));
  CHECK(r.jobs[2].waited[static_cast<std::size_t>(Why::fragments)] == Seconds{10});
  CHECK(r.jobs[3].waited[static_cast<std::size_t>(Why::busy)] == Seconds{15});
  CHECK(r.jobs[2].after == 1);
}

TEST_CASE("what cannot be is refused, with its place") {
  const auto refusal = [](auto change) -> std::string {
    Fleet f = shared(8, {queue("a", 4), queue("b", 4)}, {{"a", {0, 10, 4}}}, "borrowing");
    f.jobs[0].where = "f: /jobs/0";
    for (std::size_t q = 0; q < 2; ++q) f.queues[q].where = "f: /queues/" + std::to_string(q);
    change(f);
    return testing::refusal_of(f);
  };
  CHECK(refusal([](Fleet&) {}) == "accepted");
  CHECK(refusal([](Fleet& f) { f.queues[0].parent = "b", f.queues[1].parent = "a"; }) ==
        "f: /queues/0/parent: queue 'a' is above itself");
  CHECK(refusal([](Fleet& f) { f.queues[1].guaranteed = 5; }) ==
        ": /queues: queues are guaranteed 9 GPUs, and the cluster has 8");
  CHECK(refusal([](Fleet& f) { f.jobs[0].request.gpus = 9; }).find("can never run") != std::string::npos);
  CHECK(refusal([](Fleet& f) { f.queues[0].limit = 4, f.jobs[0].request.gpus = 5; }) ==
        "f: /jobs/0: job '0' can never run: queue 'a' may never hold 5 GPUs");
  CHECK(refusal([](Fleet& f) { f.queues[1].name = "a"; }) == "f: /queues/1/name: two queues are called 'a'");
  CHECK(refusal([](Fleet& f) { f.jobs[0].arrival = Seconds{-1}; }) == "f: /jobs/0/arrival: job '0': -1 s");
  CHECK(refusal([](Fleet& f) { f.jobs[0].queue = "c"; }).starts_with("f: /jobs/0/queue: unknown queue 'c'"));
}
