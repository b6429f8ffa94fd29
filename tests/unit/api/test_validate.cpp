// The scoreboard through the facade.

#include "tests/support/catch.hpp"
#include "tests/unit/api/support.hpp"

using namespace rehearse;
using testing::toys;

namespace {

const std::string kRuns = toys() + "/runs.json";

}  // namespace

TEST_CASE("a row's error is predicted over measured, less one", "[api]") {
  const ValidateAnswer answer = validate({kRuns}, {.data = toys(), .workers = 1});
  REQUIRE(answer.board.predicted() > 0);
  for (const ScoredRow& row : answer.board.rows)
    if (row.predicted) CHECK(row.error == Approx(row.prediction.step_time / row.row.job->measured.time - 1));
}

TEST_CASE("one row alone says the same of it", "[api]") {
  const ValidateAnswer all = validate({kRuns}, {.data = toys(), .workers = 2});
  const ValidateAnswer one = validate({kRuns}, {.data = toys(), .row = "toy_tp8"});
  REQUIRE(one.board.rows.size() == 1);
  CHECK(one.board.rows[0].error == all.board.rows.at(0).error);
  CHECK(to_json(one).find("toy_tp2_pp4") == std::string::npos);
  CHECK_THROWS_AS(validate({kRuns}, {.data = toys(), .row = "nobody"}), Error);
}

TEST_CASE("kernels by shape are told from training steps", "[api]") {
  const ValidateAnswer answer = validate({toys() + "/attention.csv"}, {.data = toys()});
  CHECK(answer.board.rows.empty());
  CHECK_FALSE(answer.parts.kernels.rows.empty());
}

TEST_CASE("a back end that there is not is refused before anything is read", "[api]") {
  CHECK_THROWS_AS(validate({"no such file"}, {.data = toys(), .backend = "abacus"}), Error);
}
