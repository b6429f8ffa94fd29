#pragma once
// How far predictions are off: against training steps, kernels and collectives that others measured.
//
//   const auto answer = rehearse::validate({"tests/published/data/torchtitan.json"});
//   fmt::print("median error {:.1f} %\n", 100 * answer.board.time.median);

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/report/results/scoreboard_report.hpp"

namespace rehearse {

struct ValidateOptions {
  /// Folder that holds topologies/ and scenarios/. Default: empty, which searches as find_data() says
  /// (core/api/data_directory.hpp); with a folder, no variable is read and no other path is tried.
  std::filesystem::path data{};
  /// What predicts: "estimate" for the closed form, or a registered back end. Default: "estimate".
  std::string backend = "estimate";
  /// The id of the one row that is wanted, with every field of its scenario and where it is from. Default: empty, all.
  std::string row{};
  /// Whether documents list rows, or error figures by source, generation and model only. Default: rows.
  bool rows = true;
  /// Whether each source is predicted again without the constants that were fitted on its steps. Default: no; takes as
  /// long again.
  bool leave_out = false;
  /// Whether likely ranges are fitted again, on these rows and on the first errors (topologies/first_errors.json), and
  /// judged by leaving out each source in turn; rows then get the new ranges. Default: no, rows get the shipped ones.
  bool fit_ranges = false;
  /// Registered back end that plays every tenth row of each source, up to 64 GPUs, beside the closed form. Default:
  /// empty, none.
  std::string agreement{};
  /// Folder that every predicted row is written to as a scenario, FILE/ID.json. Default: empty, none is.
  std::filesystem::path write_scenarios{};
  /// Threads. Default: 0, as many as the machine has cores. The answer is the same for any number.
  int workers = 0;
  /// Rows done, of all; called by any thread, one at a time. Default: nothing is called.
  std::function<void(int done, int all)> progress{};
};

struct ValidateAnswer {
  /// Training steps: of every row what was measured, predicted and assumed, or why it was skipped; error figures.
  Scoreboard board;
  /// Kernels, collectives, and what `leave_out`, `fit_ranges` and `agreement` asked for.
  ScoreboardParts parts;
  /// The ranges that rows were given.
  PredictionRanges ranges;
  int scenarios_written = 0;  ///< Into ValidateOptions::write_scenarios.
  std::string row;            ///< ValidateOptions::row; where it is not empty, board.rows holds that row alone.
};

/// Where ValidateOptions::write_scenarios has a predicted row, below that folder: FILE/ID.json.
[[nodiscard]] std::filesystem::path scenario_file(const MappedRow& row);

/// `files` are JSON entries or CSV of measured steps, tables of collectives, and kernels by shape
/// (tests/published/data/README.md). What a single row gets wrong becomes its reason to be skipped. Throws Error
/// (usage) for files that cannot be read or are of no such form, unknown back ends and unknown rows.
[[nodiscard]] ValidateAnswer validate(const std::vector<std::string>& files, const ValidateOptions& options = {});

/// Tables, records for spreadsheets, JSON (rehearse/scoreboard/v1) for programs; of one row where one was wanted.
[[nodiscard]] Document to_document(const ValidateAnswer& answer);
/// The JSON alone; ends in a newline.
[[nodiscard]] std::string to_json(const ValidateAnswer& answer);

}  // namespace rehearse
