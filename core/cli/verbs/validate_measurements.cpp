#include "core/cli/verbs/validate_measurements.hpp"

#include <charconv>

#include <fmt/format.h>

#include "core/api/validate.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/report/formats/text_output.hpp"
#include "core/scoreboard/prediction_range.hpp"

namespace rehearse::cli {

namespace {

double limit_of(const Arguments& arguments) {
  const std::string text = arguments.text("--max-error");
  double value = 0;
  const std::string number = text.ends_with('%') ? text.substr(0, text.size() - 1) : text;
  const auto [end, failed] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (failed != std::errc{} || end != number.data() + number.size() || !(value >= 0))
    throw Error(ErrorKind::usage, fmt::format("'{}' is no share", text), "--max-error",
                "example: --max-error 5%, or 0.05");
  return text.ends_with('%') ? value / 100 : value;
}

/// What predictions of every kind of job are said to be off by.
void write_ranges(const Scoreboard& board, const std::string& file, Console& console) {
  write_file(file, PredictionRanges::of(board).to_json());
  console.err << fmt::format("wrote {}\n", file);
}

}  // namespace

int validate_measurements(const Arguments& arguments, Console& console) {
  check_output(arguments);
  check_html(arguments);
  std::vector<std::string> files = arguments.all("--measurements");
  const std::vector<std::string> more = arguments.all("SCENARIO");
  files.insert(files.end(), more.begin(), more.end());
  const double limit = arguments.has("--max-error") ? limit_of(arguments) : 0;
  ValidateOptions options;
  options.backend = arguments.text("--backend", options.backend);
  options.row = arguments.text("--explain");
  options.rows = !arguments.has("--summary");
  options.leave_out = arguments.has("--refit");
  options.agreement = arguments.text("--agreement");
  const ValidateAnswer answer = rehearse::validate(files, options);
  const Scoreboard& board = answer.board;
  if (arguments.has("--write-ranges")) write_ranges(board, arguments.text("--write-ranges"), console);
  const Document document = to_document(answer);
  print(document, arguments, console);
  write_html("validate", document, arguments, console);
  if (!arguments.has("--max-error")) return 0;
  if (board.time.rows == 0) {
    console.err << "no row counts: nothing was checked\n";
    return static_cast<int>(ErrorKind::check_failed);
  }
  if (board.time.median <= limit) return 0;
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
           "write the ranges that predictions are given (topologies/prediction_errors.json), from these rows' errors"},
          {"--explain", "ROW", "one row of --measurements: every field of its scenario and where it is from"}};
}

}  // namespace rehearse::cli
