#include "tests/unit/scoreboard/rows.hpp"

#include "core/report/results/scoreboard_report.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

std::vector<Measurement> three_rows() {
  nlohmann::json small = row_json(), gone = row_json(), twin = row_json();
  gone["id"] = "b";
  gone["config"]["gpu_type"] = "abacus";
  twin["id"] = "c";
  twin["config"].erase("micro_batch");
  return parse_measurements(nlohmann::json{{"entries", {small, gone, twin}}}.dump(), "rows.json");
}

}  // namespace

TEST_CASE("rows that count, rows that are listed and rows that are skipped are told apart") {
  const Scoreboard board = score(three_rows(), paths());
  REQUIRE(board.rows.size() == 3);
  CHECK(board.predicted() == 2);
  CHECK(board.listed == 1);
  CHECK(board.time.rows == 1);
  CHECK(board.skipped == std::map<std::string, int>{{"GPU unknown", 1}});
  CHECK(board.rows[0].error == Approx(board.rows[0].prediction.step_time / board.rows[0].row.job->measured.time - 1));
}

TEST_CASE("the number of workers changes nothing") {
  ScoreOptions one, many;
  one.workers = 1;
  many.workers = 3;
  CHECK(scoreboard_document(score(three_rows(), paths(), one)).json ==
        scoreboard_document(score(three_rows(), paths(), many)).json);
}

TEST_CASE("JSON keeps the members that others build on") {
  const auto json = nlohmann::json::parse(scoreboard_document(score(three_rows(), paths())).json);
  CHECK(json.at("schema") == "rehearse/scoreboard/v1");
  const auto& row = json.at("rows").at(0);
  for (const char* key : {"id", "quantity", "unit", "predicted", "measured", "error", "skipped"})
    CHECK(row.contains(key));
  CHECK(row.at("error").get<double>() ==
        Approx(row.at("predicted").get<double>() / row.at("measured").get<double>() - 1));
  CHECK(json.at("rows").at(1).at("skipped") == "GPU unknown");
  for (const char* key : {"predicted_rows", "skipped_rows", "median_abs_error", "mean_abs_error", "p90_abs_error",
                          "worst_abs_error", "bias"})
    CHECK(json.at("summary").contains(key));
}

TEST_CASE("placeholders of gradients are held where products add them up, and nowhere else") {
  const auto allocated = [](bool fused) {
    nlohmann::json row = row_json();
    row["config"].update({{"profile", "megatron-core@0.12"},
                          {"gradient_dtype", "fp32"},
                          {"global_batch", 4},
                          {"zero_stage", 0},
                          {"fused_gradient_accumulation", fused}});
    row["measured"]["peak_allocated_GiB"] = 40.0;
    const Scoreboard board = score(parse_measurements(nlohmann::json{{"entries", {row}}}.dump(), "rows.json"), paths());
    INFO(board.rows.at(0).row.detail);
    REQUIRE(board.rows.at(0).predicted);
    return board.rows.at(0).prediction.peak_allocated.value();
  };
  // One microbatch: nothing else differs. Four shapes of a layer's weights and the vocabulary's, over two ranks, in 16
  // bits.
  CHECK(allocated(true) - allocated(false) > 2 * 4096.0 * 14336 / 2 * 2);
}

TEST_CASE("more of the same work takes longer, on the same machine") {
  nlohmann::json row = row_json(), twice = row_json();
  twice["id"] = "twice";
  twice["config"]["global_batch"] = 32;
  const Scoreboard board =
      score(parse_measurements(nlohmann::json{{"entries", {row, twice}}}.dump(), "rows.json"), paths());
  const double ratio = board.rows[1].prediction.step_time / board.rows[0].prediction.step_time;
  CHECK(ratio > 1.8);
  CHECK(ratio < 2.0);
}
