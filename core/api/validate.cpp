#include "core/api/validate.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "core/api/data_directory.hpp"
#include "core/base/near_names.hpp"
#include "core/play/backend.hpp"
#include "core/report/formats/text_output.hpp"
#include "core/scoreboard/ranges/range_fit.hpp"

namespace rehearse {

namespace {

std::vector<Measurement> read_all(const std::vector<std::string>& files) {
  std::vector<Measurement> out;
  for (const std::string& file : files) {
    std::vector<Measurement> rows = read_measurements(file);
    std::move(rows.begin(), rows.end(), std::back_inserter(out));
  }
  return out;
}

/// The rows called `id` alone. Throws Error (usage) where none is.
std::vector<Measurement> rows_named(std::vector<Measurement> rows, const std::string& id) {
  std::vector<std::string> ids;
  for (const Measurement& m : rows) ids.push_back(m.id);
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) {
    const std::string meant = question_of(near_names(id, ids));
    throw Error(ErrorKind::usage, fmt::format("unknown row '{}'", id.substr(0, 80)), {},
                meant.empty() ? "an answer about all rows, as csv or JSON, names them by id" : meant);
  }
  std::erase_if(rows, [&](const Measurement& m) { return m.id != id; });
  return rows;
}

int write_scenarios(const Scoreboard& board, const std::filesystem::path& folder) {
  int written = 0;
  for (const ScoredRow& row : board.rows) {
    const auto text = row.predicted ? scenario_text(row.row) : std::nullopt;
    if (!text) continue;
    const std::filesystem::path file = folder / scenario_file(row.row);
    std::filesystem::create_directories(file.parent_path());
    write_file(file.string(), *text);
    ++written;
  }
  return written;
}

/// The shipped ranges, or new ones.
void add_ranges(const DataDirectory& data, bool fit, ValidateAnswer& out) {
  if (fit) {
    std::vector<ErrorGroup> groups = load_first_errors(data.first_errors());
    std::vector<ErrorGroup> later = groups_of(out.board);
    std::move(later.begin(), later.end(), std::back_inserter(groups));
    std::vector<ErrorGroup> peaks = load_first_errors(data.first_errors(), ErrorQuantity::peak_memory);
    later = groups_of(out.board, ErrorQuantity::peak_memory);
    std::move(later.begin(), later.end(), std::back_inserter(peaks));
    const RangeFit of_peaks(peaks);
    out.ranges = PredictionRanges::of(RangeFit(groups), &of_peaks);
    out.parts.judgement = judge_ranges(groups);
    for (auto& [name, judged] : judge_ranges(peaks).groups)
      out.parts.judgement.groups.emplace("peak memory, " + name, judged);
  } else {
    out.ranges = PredictionRanges::load(data.prediction_errors());
  }
  give_ranges(out.board, out.ranges);
}

}  // namespace

std::filesystem::path scenario_file(const MappedRow& row) {
  std::string name = row.id;
  for (char& c : name)
    if (c == '/' || c == ':' || c == ' ') c = '_';
  return std::filesystem::path(row.file) / (name + ".json");
}

ValidateAnswer validate(const std::vector<std::string>& files, const ValidateOptions& options) {
  const DataDirectory data = data_in(options.data);
  if (options.backend != "estimate") (void)backends().at(options.backend);
  std::vector<std::string> steps = files;
  const auto kernels =
      std::stable_partition(steps.begin(), steps.end(), [](const std::string& f) { return !is_kernel_file(f); });
  const std::vector<std::string> kernel_files(kernels, steps.end());
  steps.erase(kernels, steps.end());
  std::vector<Measurement> rows = read_all(steps);
  if (!options.row.empty()) rows = rows_named(std::move(rows), options.row);
  const PredictorPaths paths{data.topologies(), data.models()};
  ScoreOptions score_options;
  score_options.backend = options.backend;
  score_options.workers = options.workers;
  score_options.progress = options.progress;
  ValidateAnswer out{score(rows, paths, score_options), {}, {}, 0, options.row};
  add_ranges(data, options.fit_ranges, out);
  if (!options.write_scenarios.empty()) out.scenarios_written = write_scenarios(out.board, options.write_scenarios);
  out.parts.rows = options.rows;
  if (options.row.empty()) out.parts.kernels = score_kernels(kernel_files, rows, data.topologies());
  if (options.leave_out) {
    out.parts.left_out = leave_out(out.board, rows, paths, score_options);
    out.parts.fitted = fitted_classes(data.calibration());
  }
  if (!options.agreement.empty())
    out.parts.agreement = agreement(out.board, rows, paths, {.backend = options.agreement});
  return out;
}

Document to_document(const ValidateAnswer& answer) {
  return answer.row.empty() ? scoreboard_document(answer.board, answer.parts) : row_document(answer.board.rows.at(0));
}
std::string to_json(const ValidateAnswer& answer) { return to_document(answer).json; }

}  // namespace rehearse
