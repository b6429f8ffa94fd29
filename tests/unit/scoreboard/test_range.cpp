#include "core/scoreboard/prediction_range.hpp"

#include "core/cluster/make_cluster.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/model/library.hpp"
#include "core/strategy/workload.hpp"
#include "tests/unit/scoreboard/rows.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// Rows whose predictions are off by these errors, on a generation.
void add_rows(Scoreboard& board, const std::vector<double>& errors, const std::string& generation,
              const std::string& strategy = "dp", const std::string& model = "dense") {
  for (const double e : errors) {
    ScoredRow row;
    row.row.job.emplace();
    row.row.job->generation = generation;
    row.row.job->strategy = strategy;
    row.row.job->model_kind = model;
    row.predicted = true;
    row.error = e;
    board.rows.push_back(std::move(row));
  }
}

std::string written(const PredictionRanges& ranges) {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("ranges" + std::to_string(::getpid()) + ".json")).string();
  std::ofstream(file) << ranges.to_json();
  return file;
}

}  // namespace

TEST_CASE("a prediction 25 % too slow says that steps take four fifths of it") {
  Scoreboard board;
  add_rows(board, std::vector<double>(10, 0.25), "ampere");
  const PredictionRange r = PredictionRanges::of(board).range({"dense", "ampere", "dp"});
  CHECK(r.p10 == Approx(0.8));
  CHECK(r.p90 == Approx(0.8));
  CHECK(r.rows == 10);
  CHECK(r.rows_of == "dense models on ampere, dp");
}

TEST_CASE("a tenth of the measured steps lies below the range and a tenth above") {
  Scoreboard board;
  std::vector<double> errors;
  for (int i = 0; i <= 100; ++i) errors.push_back(1 / (0.5 + i / 100.0) - 1);  // Factors .50, .51, ..., 1.50.
  add_rows(board, errors, "hopper");
  const PredictionRange r = PredictionRanges::of(board).range({"dense", "hopper", "dp"});
  CHECK(r.p10 == Approx(0.6));
  CHECK(r.p90 == Approx(1.4));
}

TEST_CASE("a kind with few measured steps is answered by the next wider one") {
  Scoreboard board;
  add_rows(board, std::vector<double>(PredictionRanges::kFewestRows, 0.0), "ampere", "tp + dp");
  add_rows(board, std::vector<double>(PredictionRanges::kFewestRows - 1, 1.0), "hopper", "pp");
  const PredictionRanges ranges = PredictionRanges::of(board);
  CHECK(ranges.range({"dense", "ampere", "tp + dp"}).rows == 8);
  CHECK(ranges.range({"dense", "ampere", "pp"}).rows_of == "dense models on ampere");
  CHECK(ranges.range({"dense", "hopper", "pp"}).rows_of == "dense models");
  CHECK(ranges.range({"dense", "hopper", "pp"}).rows == 15);
  CHECK(ranges.range({"images", "volta", "dp"}).rows_of == "all measured steps");
}

TEST_CASE("rows that count in no figure make no range") {
  Scoreboard board;
  add_rows(board, std::vector<double>(9, 0.0), "ampere");
  board.rows[0].row.guessed = {"micro_batch"};
  CHECK(PredictionRanges::of(board).range({}).rows == 8);
}

TEST_CASE("ranges survive being written and read") {
  Scoreboard board;
  add_rows(board, {-0.2, -0.1, 0, 0.1, 0.2, 0.3, 0.4, 0.5}, "volta");
  const PredictionRanges ranges = PredictionRanges::of(board);
  CHECK(PredictionRanges::load(written(ranges)).to_json() == ranges.to_json());
}

TEST_CASE("a file of ranges without the widest kind, or with its ends exchanged, is refused") {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("bad_ranges" + std::to_string(::getpid()) + ".json")).string();
  const auto refused = [&](const char* groups) {
    std::ofstream(file) << R"({"schema": "rehearse/prediction_errors/v1", "groups": )" << groups << "}";
    try {
      (void)PredictionRanges::load(file);
    } catch (const Error& e) {
      return e.where;
    }
    return std::string();
  };
  CHECK(refused(R"([{"model": "dense", "generation": "", "strategy": "", "rows": 9, "p10": 0.9, "p90": 1.1}])")
            .ends_with("/groups"));
  CHECK(refused(R"([{"model": "", "generation": "", "strategy": "", "rows": 9, "p10": 1.2, "p90": 1.1}])")
            .ends_with("/groups/0/p10"));
}

TEST_CASE("the shipped ranges hold the prediction's order of magnitude and more rows the wider they are") {
  const PredictionRanges ranges = PredictionRanges::load(kRoot + "/topologies/prediction_errors.json");
  const PredictionRange narrow = ranges.range({"dense", "ampere", "tp + dp"}), wide = ranges.range({});
  CHECK(narrow.rows <= wide.rows);
  for (const PredictionRange& r : {narrow, wide}) {
    CHECK(r.p10 > 0.5);
    CHECK(r.p90 < 2);
  }
}

TEST_CASE("the kind of a job is read from its network, axes and cluster") {
  const Catalogue catalogue(kRoot + "/topologies");
  ClusterSpec mixed, alone;
  mixed.parts = {{"dgx_a100_80gb", 1}, {"dgx_h100", 1}};
  mixed.network = "ib_hdr";
  alone.parts = {{"dgx_h100", 1}};
  alone.network = "single_switch";
  const Cluster one = make_cluster(catalogue, alone);
  ModelLibrary models(kRoot + "/scenarios/models");
  StrategySettings s;
  s.tp = 8;
  const PredictionKind kind = kind_of(models.load("mixtral_8x7b"), s, one);
  CHECK(kind.model == "experts");
  CHECK(kind.generation == "hopper");
  CHECK(kind.strategy == "tp");
  CHECK(kind_of(models.load("llama3_8b"), s, make_cluster(catalogue, mixed)).generation.empty());
}
