// Quotas by pool: Kueue's flavors, and node pools of KAI. Cases worked by hand, and those of Kueue's documentation.

#include <map>

#include "core/base/error.hpp"
#include "core/fleet/advise.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/fleet/fleets.hpp"

using namespace rehearse;
using namespace rehearse::fleet;

namespace {

Queue queue(const std::string& name, const std::string& parent, std::vector<PoolQuota> pools) {
  Queue q;
  q.name = name;
  q.parent = parent;
  q.pools = std::move(pools);
  return q;
}

/// A node of `gpus` GPUs for each pool.
Fleet pools(const std::vector<std::pair<std::string, int>>& gpus, std::vector<Queue> queues,
            const std::string& quota = "borrowing") {
  Fleet f;
  f.name = "test";
  f.origin = "f";
  for (const auto& [pool, n] : gpus) f.nodes.push_back({.name = "node-" + pool, .pool = pool, .gpus = n});
  f.queues = std::move(queues);
  f.policy.quota = quota;
  return f;
}

void add(Fleet& f, const std::string& queue, testing::Row row, int times = 1) {
  for (int i = 0; i < times; ++i)
    f.jobs.push_back(testing::job(static_cast<int>(f.jobs.size()), row.arrival, row.duration, row.gpus, queue));
}

/// GPUs that jobs of `queue` hold at time 0, by pool; those that wait, by "".
std::map<std::string, int> held(const Fleet& f, const std::string& queue) {
  const FleetResult r = run_fleet(f);
  std::map<std::string, int> out;
  std::vector<bool> placed(f.jobs.size(), false);
  for (const Stay& s : r.stays) {
    const auto job = static_cast<std::size_t>(s.job);
    if (f.jobs[job].queue != queue || s.begin.value() > 0) continue;
    placed[job] = true;
    for (const Held& h : s.held) out[f.nodes[static_cast<std::size_t>(h.node)].pool] += h.gpus;
  }
  for (std::size_t i = 0; i < f.jobs.size(); ++i)
    if (f.jobs[i].queue == queue && !placed[i]) out[""] += f.jobs[i].request.gpus;
  return out;
}

using Where = std::map<std::string, int>;

/// site/content/en/docs/tasks/manage/administer_cluster_quotas.md: dedicated quota for a flavor and a shared one to
/// fall back to.
Fleet dedicated_and_fallback() {
  return pools({{"arm", 21}, {"x86", 6}},
               {queue("team-ab", "", {}),
                queue("team-a", "team-ab", {{.pool = "arm", .guaranteed = 9, .borrow = 0}, {.pool = "x86"}}),
                queue("team-b", "team-ab", {{.pool = "arm", .guaranteed = 12, .borrow = 0}, {.pool = "x86"}}),
                queue("shared", "team-ab", {{.pool = "x86", .guaranteed = 6}})});
}

}  // namespace

TEST_CASE("Kueue's example of dedicated and fallback flavors") {
  Fleet alone = dedicated_and_fallback();
  add(alone, "team-a", {0, 10, 1}, 20);
  CHECK(held(alone, "team-a") == Where{{"arm", 9}, {"x86", 6}, {"", 5}});
  // A cohort that states what its queues have together has no more than one that states nothing.
  const double sums[] = {21, 6};
  for (std::size_t p = 0; p < 2; ++p)
    alone.queues[0].pools.push_back({.pool = alone.queues[1].pools[p].pool, .guaranteed = sums[p]});
  CHECK(held(alone, "team-a") == Where{{"arm", 9}, {"x86", 6}, {"", 5}});

  Fleet both = dedicated_and_fallback();
  add(both, "team-a", {0, 10, 1}, 9);
  add(both, "team-b", {0, 10, 1}, 20);
  add(both, "team-a", {0, 10, 1}, 1);
  CHECK(held(both, "team-a") == Where{{"arm", 9}, {"", 1}});
  CHECK(held(both, "team-b") == Where{{"arm", 12}, {"x86", 6}, {"", 2}});
}

TEST_CASE("a queue takes back what is its own of a flavor, and only there") {
  Fleet f = dedicated_and_fallback();
  add(f, "team-a", {0, 100, 3}, 5);   // 9 of arm, 6 of x86.
  add(f, "shared", {20, 10, 3}, 1);   // Its own 3 of x86.
  add(f, "team-b", {20, 10, 12}, 1);  // Its own 12 of arm, which nobody took.
  const FleetResult r = run_fleet(f);
  CHECK(testing::starts(r) == std::vector<double>{0, 0, 0, 0, 0, 20, 20});
  int stopped = 0;
  for (std::size_t i = 0; i < 3; ++i) stopped += r.jobs[i].preemptions;
  CHECK(stopped == 0);
  CHECK(r.jobs[3].preemptions + r.jobs[4].preemptions == 1);
}

TEST_CASE("the first flavor of a queue that has room is taken, with borrowing, and none that it does not name") {
  const auto cluster = [](double borrow) {
    Fleet f =
        pools({{"spot", 12}, {"reserved", 8}},
              {queue("all", "", {}),
               queue("a", "all",
                     {{.pool = "spot", .guaranteed = 8, .borrow = borrow}, {.pool = "reserved", .guaranteed = 4}}),
               queue("b", "all", {{.pool = "spot", .guaranteed = 4}})});
    add(f, "a", {0, 10, 4}, 3);
    return f;
  };
  CHECK(held(cluster(kUnlimited), "a") == Where{{"spot", 12}});
  CHECK(held(cluster(0), "a") == Where{{"spot", 8}, {"reserved", 4}});
  Fleet named = cluster(0);
  add(named, "b", {0, 10, 4}, 2);
  CHECK(held(named, "b") == Where{{"spot", 4}, {"", 4}});
  // A job that names pools of its own stands in those alone, in the queue's order.
  Fleet own = cluster(kUnlimited);
  for (Job& j : own.jobs) j.request.pools = {"reserved"};
  CHECK(held(own, "a") == Where{{"reserved", 4}, {"", 8}});
}

TEST_CASE("Kueue serves whoever is within its own before those that borrow") {
  // cluster_queue.md, borrowing example: team-a has 9 and uses them; what team-b asks for comes before more for team-a.
  Fleet f;
  f.name = "test";
  f.nodes = testing::nodes(1, 21);
  for (const auto& [name, own] : {std::pair{"a", 9.0}, {"b", 12.0}}) {
    f.queues.push_back(queue(name, "ab", {}));
    f.queues.back().guaranteed = own;
  }
  f.queues.push_back(queue("ab", "", {}));
  f.policy.quota = "borrowing";
  add(f, "a", {0, 10, 9});
  add(f, "a", {0, 10, 12});
  add(f, "b", {0, 10, 12});
  CHECK(testing::starts(run_fleet(f)) == std::vector<double>{0, 10, 0});
}

TEST_CASE("fair shares are divided pool by pool") {
  // Each pool of 8 is divided by weight, 3 to 1, whatever was got of the other.
  Fleet f = pools(
      {{"old", 8}, {"new", 8}},
      {queue("a", "", {{.pool = "old"}, {.pool = "new"}}), queue("b", "", {{.pool = "old"}, {.pool = "new"}})}, "fair");
  f.queues[0].weight = 3;
  for (const char* pool : {"old", "new"})
    for (const char* q : {"a", "b"}) {
      add(f, q, {0, 10, 1}, 12);
      for (std::size_t i = f.jobs.size() - 12; i < f.jobs.size(); ++i) f.jobs[i].request.pools = {pool};
    }
  CHECK(held(f, "a") == Where{{"old", 6}, {"new", 6}, {"", 12}});
  CHECK(held(f, "b") == Where{{"old", 2}, {"new", 2}, {"", 20}});
}

TEST_CASE("limits and fixed parts hold in each pool") {
  Fleet f =
      pools({{"old", 8}, {"new", 8}},
            {queue("a", "", {{.pool = "old", .guaranteed = 2, .limit = 3}, {.pool = "new", .guaranteed = 4}})}, "hard");
  add(f, "a", {0, 10, 1}, 10);
  CHECK(held(f, "a") == Where{{"old", 2}, {"new", 4}, {"", 4}});
  f.policy.quota = "fair";
  CHECK(held(f, "a") == Where{{"old", 3}, {"new", 7}});
}

TEST_CASE("advice is by pool, too") {
  Fleet f = pools(
      {{"old", 4}, {"new", 4}},
      {queue("a", "", {{.pool = "old", .guaranteed = 2}}), queue("b", "", {{.pool = "new", .guaranteed = 4}})}, "hard");
  add(f, "a", {0, 100, 2}, 2);
  add(f, "b", {0, 100, 4});
  const AdviceAnswer advice = advise(f, "a", Seconds{0});
  const auto more = std::find_if(advice.changes.begin(), advice.changes.end(),
                                 [](const Advice& x) { return x.what == "guarantee a 4 GPUs of old"; });
  REQUIRE(more != advice.changes.end());
  CHECK(more->enough);
  CHECK(more->sets == std::vector<std::string>{"queues.0.pools.0.guaranteed=4"});
}

TEST_CASE("quotas by pool that cannot be are refused, with their place") {
  const auto refusal = [](auto change) -> std::string {
    Fleet f = pools({{"old", 8}, {"new", 8}}, {queue("a", "", {{.pool = "old", .guaranteed = 4}}), queue("b", "", {})});
    for (std::size_t q = 0; q < f.queues.size(); ++q) f.queues[q].where = "f: /queues/" + std::to_string(q);
    add(f, "a", {0, 10, 4});
    f.jobs[0].where = "f: /jobs/0";
    change(f);
    return testing::refusal_of(f);
  };
  CHECK(refusal([](Fleet&) {}) == "accepted");
  CHECK(refusal([](Fleet& f) { f.queues[0].pools[0].guaranteed = 9; }) ==
        "f: /queues: queues are guaranteed 9 GPUs, and pool 'old' has 8");
  CHECK(refusal([](Fleet& f) {
          f.queues[0].pools[0].pool = "odl";
        }).starts_with("f: /queues/0/pools/0/pool: unknown pool"));
  CHECK(refusal([](Fleet& f) { f.queues[0].pools.push_back({.pool = "old"}); }) ==
        "f: /queues/0/pools/1/pool: queue 'a' names pool 'old' twice");
  CHECK(refusal([](Fleet& f) { f.queues[0].guaranteed = 1; }) ==
        "f: /queues/0/pools: queue 'a' states its amounts by pool and over all");
  CHECK(refusal([](Fleet& f) { f.queues[1].guaranteed = 1; }) ==
        "f: /queues/1: queue 'b' states its amounts over all pools, and others by pool");
  CHECK(refusal([](Fleet& f) { f.queues[0].pools[0].limit = 3; }) ==
        "f: /queues/0/pools/0/limit: queue 'a' may hold 3 GPUs in pool 'old' and is guaranteed 4");
  CHECK(refusal([](Fleet& f) { f.queues[0].pools[0].borrow = -1; }) ==
        "f: /queues/0/pools/0: queue 'a' has a negative amount in pool 'old'");
  CHECK(refusal([](Fleet& f) { f.jobs[0].request.pools = {"new"}; }) ==
        "f: /jobs/0: job '0' can never run: queue 'a' may never hold 4 GPUs of a pool where it fits");
}
