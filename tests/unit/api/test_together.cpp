// Several scenarios on one cluster, through the facade.

#include "core/api/together.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/api/support.hpp"

using namespace rehearse;
using testing::toy;
using testing::toys;

namespace {

TogetherOptions on_shared_toys(NodeDeal deal = NodeDeal::one_after_another) {
  TogetherOptions out;
  out.data = toys();
  out.backend = default_backend();
  out.deal = deal;
  out.steps = 2;
  return out;
}

TogetherAsked two_nodes(const std::string& name, const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides{"cluster.nodes=2", "cluster.network=\"toy_rails\"", "strategy.dp=4"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return {name, toy("pipeline_1f1b", overrides), {}, {}};
}

Error refusal(const std::vector<TogetherAsked>& jobs, const TogetherOptions& options) {
  try {
    (void)simulate_together(jobs, options);
  } catch (const Error& e) {
    return e;
  }
  FAIL("nothing was thrown");
  return {ErrorKind::usage, ""};
}

}  // namespace

TEST_CASE("nodes are given one job after another, in turn, or as stated", "[api]") {
  const std::vector<TogetherAsked> jobs{two_nodes("a"), two_nodes("b")};
  const TogetherReport after = simulate_together(jobs, on_shared_toys());
  CHECK(after.jobs[0].nodes == std::vector<NodeId>{0, 1});
  CHECK(after.jobs[1].nodes == std::vector<NodeId>{2, 3});
  const TogetherReport turns = simulate_together(jobs, on_shared_toys(NodeDeal::interleaved));
  CHECK(turns.jobs[0].nodes == std::vector<NodeId>{0, 2});
  CHECK(turns.jobs[1].nodes == std::vector<NodeId>{1, 3});
  std::vector<TogetherAsked> stated = jobs;
  stated[0].nodes = {3, 0};
  CHECK(simulate_together(stated, on_shared_toys()).jobs[1].nodes == std::vector<NodeId>{1, 2});
  stated[1].nodes = {3, 1};
  CHECK(std::string(refusal(stated, on_shared_toys()).what()).find("node 3 has a job already") != std::string::npos);
}

TEST_CASE("one job together with nobody takes what simulate says", "[api]") {
  const TogetherAsked job = two_nodes("a");
  SimulateOptions single;
  single.data = toys();
  single.backend = default_backend();
  const TogetherReport report = simulate_together({job}, on_shared_toys());
  CHECK(report.links.empty());
  CHECK(report.jobs[0].beside == report.jobs[0].alone);
  CHECK(report.jobs[0].beside[0] / simulate(job.scenario, single).metrics.step_time == Approx(1).epsilon(1e-9));
}

TEST_CASE("jobs that cannot be put together are refused", "[api]") {
  const TogetherOptions options = on_shared_toys();
  CHECK(refusal({}, options).kind == ErrorKind::usage);
  CHECK(refusal({two_nodes("a"), two_nodes("b", {"cluster.machine=toy_small_8"})}, options).where == "b: /cluster");
  TogetherAsked early = two_nodes("a");
  early.begin = Seconds{-1};
  CHECK(refusal({early}, options).kind == ErrorKind::usage);
  TogetherOptions small = options;
  small.cluster = "toy_8";
  CHECK(std::string(refusal({two_nodes("a")}, small).what())
            .find("no node with 8 GPUs is left: the jobs want 2 nodes, of 1") == 0);
}

TEST_CASE("the median of an even number of steps is the middle of two", "[api]") {
  CHECK(median_of({Seconds{4}, Seconds{1}, Seconds{3}, Seconds{2}}) == Seconds{2.5});
  CHECK(median_of({Seconds{5}, Seconds{1}, Seconds{3}}) == Seconds{3});
  CHECK(median_of({}) == Seconds{});
}
