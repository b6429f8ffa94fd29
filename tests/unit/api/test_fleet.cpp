// Fleets whose jobs name scenarios, and whose nodes break as profiles say.

#include "core/api/fleet.hpp"

#include <cmath>

#include "core/plan/reliability.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/api/support.hpp"

using namespace rehearse;
using testing::toy;
using testing::toys;

namespace {

fleet::Fleet two_pools(std::vector<fleet::Job> jobs) {
  fleet::Fleet f;
  f.origin = "made up";
  f.network = "toy_rails";
  for (int i = 0; i < 2; ++i)
    f.nodes.push_back(
        {.name = "new" + std::to_string(i), .pool = "new", .model = "toy", .gpus = 8, .machine = "toy_8"});
  f.nodes.push_back({.name = "old", .pool = "old", .model = "toy_small", .gpus = 8, .machine = "toy_small_8"});
  f.jobs = std::move(jobs);
  return f;
}

fleet::Job trains(const std::string& scenario, fleet::Request request, double steps = 100,
                  std::vector<std::string> set = {}) {
  fleet::Job j;
  j.name = scenario;
  j.request = std::move(request);
  j.work = fleet::ScenarioWork{testing::source_path("tests/golden/toy/" + scenario + ".json"), std::move(set), steps};
  return j;
}

/// So many steps of the scenario on these machines, as `estimate` says.
double by_hand(const std::string& scenario, double steps, std::vector<std::string> overrides) {
  const StepReport report = with_bias(estimate(toy(scenario, overrides), {.data = toys()}));
  return steps * report.metrics.step_time.value();
}

double speed(const fleet::Job& j, int gpus, const std::string& model) {
  for (const fleet::Speed& s : j.speeds)
    if (s.gpus == gpus && s.model == model) return s.duration.value();
  return 0;
}

}  // namespace

TEST_CASE("a job with a scenario takes its steps on whatever GPUs it gets", "[api]") {
  fleet::Fleet f = two_pools({trains("pipeline_1f1b", {.gpus = 8})});
  price_work(f, {.data = toys(), .progress = {}});
  const fleet::Job& j = f.jobs.front();
  CHECK(speed(j, 8, "toy") == Approx(by_hand("pipeline_1f1b", 100, {})));
  CHECK(speed(j, 8, "toy_small") == Approx(by_hand("pipeline_1f1b", 100, {"cluster.machine=toy_small_8"})));
  CHECK(speed(j, 8, "toy_small") > speed(j, 8, "toy"));
  CHECK(j.duration.value() == speed(j, 8, "toy"));
}

TEST_CASE("an elastic job trains on the next lower number that divides, and starts on the least that does", "[api]") {
  fleet::Fleet f = two_pools({trains("tiny_gpt2", {.gpus = 8, .min_gpus = 1}, 10, {"strategy.tp=2"})});
  price_work(f, {.data = toys(), .progress = {}});
  const fleet::Job& j = f.jobs.front();
  CHECK(j.request.min_gpus == 2);
  CHECK(speed(j, 2, "toy") > speed(j, 4, "toy"));
  CHECK(speed(j, 3, "toy") == speed(j, 2, "toy"));
  CHECK(speed(j, 4, "toy") == Approx(by_hand("tiny_gpt2", 10, {"strategy.tp=2", "cluster.gpus_per_node=4"})));
}

TEST_CASE("memory says which GPUs a job cannot have", "[api]") {
  fleet::Fleet f = two_pools({trains("llama3_8b", {.gpus = 8}, 100, {"strategy.tp=4"})});
  const auto on = [&](const char* machine) {
    return memory(toy("llama3_8b", {"strategy.tp=4", "cluster.nodes=1", std::string("cluster.machine=") + machine}),
                  {.data = toys(), .suggest = false})
        .fits();
  };
  REQUIRE(on("toy_8"));
  REQUIRE_FALSE(on("toy_small_8"));
  price_work(f, {.data = toys(), .progress = {}});
  CHECK(f.jobs.front().request.models == std::vector<std::string>{"toy"});
  f.jobs = {trains("llama3_8b", {.gpus = 8, .pools = {"old"}}, 100, {"strategy.tp=4"})};
  try {
    price_work(f, {.data = toys(), .progress = {}});
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::infeasible);
    CHECK(std::string(e.what()).find("needs") != std::string::npos);
  }
}

TEST_CASE("nodes break as often as their parts together", "[api]") {
  fleet::Fleet f = two_pools({});
  f.failures.profile = "auto";
  look_up_failures(f, {.data = toys(), .progress = {}});
  const ReliabilityProfile profile = load_reliability(std::filesystem::path(toys()) / "topologies/reliability", "toy");
  for (const fleet::Node& n : f.nodes) {
    CHECK(std::isfinite(n.mtbf.value()));
    CHECK(n.mtbf == run_mtbf(profile.times, {8, 8, 1}));
  }
  f.nodes.front().machine.clear();
  CHECK_THROWS_AS(look_up_failures(f, {.data = toys(), .progress = {}}), Error);
}

TEST_CASE("jobs that run at one moment are played together, on the nodes where they stand", "[api]") {
  fleet::Fleet f = two_pools({trains("pipeline_1f1b", {.gpus = 8, .pools = {"new"}}, 1000),
                              trains("pipeline_1f1b", {.gpus = 8, .pools = {"new"}}, 1000)});
  f.jobs[1].name = "second";
  f.jobs[1].arrival = Seconds{10};
  price_work(f, {.data = toys(), .progress = {}});
  const fleet::FleetResult result = fleet::run_fleet(f);
  TogetherOptions options;
  options.data = toys();
  options.steps = 2;
  const TogetherReport alone = play_moment(f, result, Seconds{5}, options);
  REQUIRE(alone.jobs.size() == 1);
  const TogetherReport both = play_moment(f, result, Seconds{20}, options);
  REQUIRE(both.jobs.size() == 2);
  CHECK(both.jobs[0].nodes != both.jobs[1].nodes);
  CHECK(both.jobs[0].beside == both.jobs[0].alone);  // Each in a node of its own.
  CHECK_THROWS_AS(play_moment(f, result, Seconds{1e9}, options), Error);
}
