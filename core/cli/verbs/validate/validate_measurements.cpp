#include "core/cli/verbs/validate/validate_measurements.hpp"

#include <fmt/format.h>

#include "core/api/validate.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/max_error.hpp"
#include "core/cli/output.hpp"
#include "core/report/formats/text_output.hpp"
#include "core/scoreboard/prediction_range.hpp"

namespace rehearse::cli {

namespace {

/// What predictions of every kind of job are said to be off by.
void write_ranges(const PredictionRanges& ranges, const std::string& file, Console& console) {
  write_file(file, ranges.to_json());
  console.err << fmt::format("wrote {}\n", file);
}

}  // namespace

int validate_measurements(const Arguments& arguments, Console& console) {
  check_output(arguments);
  check_html(arguments);
  std::vector<std::string> files = arguments.all("--measurements");
  const std::vector<std::string> more = arguments.all("SCENARIO");
  files.insert(files.end(), more.begin(), more.end());
  const std::optional<double> limit = max_error(arguments);
  ValidateOptions options;
  options.backend = arguments.text("--backend", options.backend);
  options.row = arguments.text("--explain");
  options.rows = !arguments.has("--summary");
  options.leave_out = arguments.has("--refit");
  options.fit_ranges = arguments.has("--write-ranges");
  options.agreement = arguments.text("--agreement");
  options.write_scenarios = arguments.text("--write-scenarios");
  const ValidateAnswer answer = rehearse::validate(files, options);
  const Scoreboard& board = answer.board;
  if (arguments.has("--write-scenarios"))
    console.err << fmt::format("wrote {} scenarios to {}\n", answer.scenarios_written,
                               options.write_scenarios.string());
  if (arguments.has("--write-ranges")) write_ranges(answer.ranges, arguments.text("--write-ranges"), console);
  const Document document = to_document(answer);
  print(document, arguments, console);
  write_html("validate", document, arguments, console);
  if (!limit) return 0;
  if (board.time.rows == 0) {
    console.err << "no row counts: nothing was checked\n";
    return static_cast<int>(ErrorKind::check_failed);
  }
  if (board.time.median <= *limit) return 0;
  console.err << fmt::format("--max-error {}: the median error of the step time, {:.2f} % over {} rows, is larger\n",
                             arguments.text("--max-error"), 100 * board.time.median, board.time.rows);
  return static_cast<int>(ErrorKind::check_failed);
}

std::vector<Option> validate_measurements_options() {
  return {{"--measurements", "FILE",
           "hold predictions against measured steps (JSON entries, or CSV with a single-node profile's columns), "
           "tables of collectives, kernels by shape",
           "", true},
          {"--summary", "", "error figures by source, GPU generation and model only"},
          {"--refit", "",
           "each source again without the constants fitted on its steps, and how many constants rest on how many rows"},
          {"--agreement", "BACKEND",
           "play every tenth row of each source, up to 64 GPUs, on a back end too and compare it with the closed form"},
          {"--write-ranges", "FILE",
           "fit the likely ranges of predictions again, on these rows and topologies/first_errors.json, judge them by "
           "leaving out each source in turn, and write them (topologies/prediction_errors.json)"},
          {"--write-scenarios", "FOLDER", "write every predicted row as a scenario file, FOLDER/FILE/ROW.json"},
          {"--explain", "ROW", "one row of --measurements: every field of its scenario and where it is from"}};
}

}  // namespace rehearse::cli
