// Steps that the user measured.

#include <cmath>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "core/api/session/observed.hpp"
#include "core/api/session/session.hpp"
#include "core/report/formats/text_output.hpp"
#include "core/report/pictures/kineto_trace.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/api/support.hpp"

using namespace rehearse;
using testing::toy;
using testing::toys;

namespace {

const std::string kOwnRows = toys() + "/runs.json";

std::string temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() / (std::to_string(::getpid()) + name)).string();
}

/// What `simulate --trace` writes of all stages of the scenario.
std::string trace_of(const Session& session) {
  const Program program = session.lowered();
  const StepReport played = simulate(session, program, {.backend = "analytic"});
  const std::string file = temporary("own.json");
  const auto out = open_output(file);
  write_kineto(*played.trace, program, session.cluster, program.name, *out);
  out->close();
  return file;
}

double width(const PredictionRange& r) { return std::log(r.p90 / r.p10); }

}  // namespace

TEST_CASE("rows of one's own narrow the range, and the range without them stays to be seen", "[api]") {
  const Scenario scenario = toy("pipeline_1f1b");
  const PredictionRange before = estimate(scenario, {.data = toys()}).range;
  const PredictionRange after = estimate(scenario, {.data = toys(), .observed = {kOwnRows}}).range;
  CHECK(before.own_rows == 0);
  CHECK(after.own_rows > 0);
  CHECK(after.p90_before == before.p90);
  CHECK(width(after) < width(before));
  const std::string json = to_json(estimate(scenario, {.data = toys(), .observed = {kOwnRows}}));
  CHECK(json.find("range_before") != std::string::npos);
}

TEST_CASE("every answer of a scenario takes rows of one's own alike", "[api]") {
  const Scenario scenario = toy("pipeline_1f1b");
  const PredictionRange estimated = estimate(scenario, {.data = toys(), .observed = {kOwnRows}}).range;
  SimulateOptions played{.data = toys(), .backend = "analytic", .observed = {kOwnRows}};
  CHECK(simulate(scenario, played).range.p90 == estimated.p90);
  SearchRequest request{.data = toys(), .fix = {"tp=1", "microbatch=1"}, .observed = {kOwnRows}};
  request.most_played = 0;
  CHECK(search(scenario, request).range.p90 == estimated.p90);
}

TEST_CASE("a trace of the scenario's own job is one step of one's own", "[api]") {
  Session session = open_session(toy("pipeline_1f1b"), {.data = toys()});
  const PredictionRange before = estimate(session, session.lowered()).range;
  observe(session, {trace_of(session)});
  REQUIRE(session.own.size() == 1);
  CHECK(session.own[0].rows == 1);
  CHECK(session.own[0].mean == Approx(0).margin(0.05));  // What the closed form and the player differ by.
  const PredictionRange after = estimate(session, session.lowered()).range;
  CHECK(after.own_rows == 1);
  CHECK(width(after) < width(before));
}

TEST_CASE("rows that cannot be used are refused with the reason", "[api]") {
  const std::string file = temporary("rows.json");
  std::ofstream(file) << R"({"entries": [{"id": "a", "source": "me", "config": {"gpu_type": "abacus", "gpus": 8},
                                           "measured": {"step_time_s": 1}}]})";
  try {
    (void)estimate(toy("pipeline_1f1b"), {.data = toys(), .observed = {file}});
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("the first, a") != std::string::npos);
    CHECK(e.where == file);
    CHECK(e.hint.find("validate --measurements") != std::string::npos);
  }
}
