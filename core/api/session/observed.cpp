#include "core/api/session/observed.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/api/session/session.hpp"
#include "core/api/session/step_answer.hpp"
#include "core/base/error.hpp"
#include "core/estimate/estimate.hpp"
#include "core/import/traces/read_trace.hpp"
#include "core/report/results/range_words.hpp"
#include "core/scoreboard/scoreboard.hpp"

namespace rehearse {

namespace {

constexpr const char* kOwnSource = "own";

/// Why no row counts, by the first of them.
Error no_row(const Scoreboard& board, const std::vector<std::string>& files) {
  std::string why = "there is none";
  if (!board.rows.empty()) {
    const MappedRow& first = board.rows.front().row;
    why = first.skipped.empty() ? fmt::format("{} is guessed", fmt::join(first.guessed, ", ")) : first.skipped;
    if (!first.detail.empty()) why += ": " + first.detail;
    why = fmt::format("the first, {}: {}", first.id, why);
  }
  return {ErrorKind::usage, fmt::format("no measured step can be used; {}", why),
          fmt::format("{}", fmt::join(files, ", ")),
          fmt::format("rehearse validate --measurements {} says what each row lacks", files.front())};
}

/// Mean duration of the steps that the profiler marked, else of the whole trace, over the traced ranks.
Seconds traced_step(const std::vector<RankTrace>& ranks, const std::string& file) {
  std::vector<double> steps, whole;
  for (const RankTrace& rank : ranks) {
    for (const StepWindow& step : rank.steps) steps.push_back((step.end - step.begin).value());
    if (rank.events.empty()) continue;
    Seconds end = rank.events.front().end();
    for (const DeviceEvent& event : rank.events) end = std::max(end, event.end());
    whole.push_back((end - rank.events.front().begin).value());
  }
  const std::vector<double>& used = steps.empty() ? whole : steps;
  const double sum = std::accumulate(used.begin(), used.end(), 0.0);
  if (!(sum > 0)) throw Error(ErrorKind::usage, "the trace holds no step", file);
  return Seconds{sum / static_cast<double>(used.size())};
}

ErrorGroup error_of_traces(const Session& session, const std::vector<std::string>& files) {
  std::vector<RankTrace> ranks;
  for (const std::string& file : files) {
    std::vector<RankTrace> read = read_trace(file);
    std::move(read.begin(), read.end(), std::back_inserter(ranks));
  }
  const Program program = session.lowered();
  const Estimate modelled = estimate(program, session.cost_model(), session.scenario.strategy, steps_to_play(session));
  return group_of(kOwnSource,
                  kind_of(session.workload.network, session.cluster, framework_name(session.scenario.framework.name)),
                  {std::log(traced_step(ranks, files.front()) / modelled.step_time)});
}

}  // namespace

std::vector<ErrorGroup> errors_of_rows(const std::vector<std::string>& files, const DataDirectory& data) {
  std::vector<Measurement> rows;
  for (const std::string& file : files) {
    std::vector<Measurement> read = read_measurements(file);
    std::move(read.begin(), read.end(), std::back_inserter(rows));
  }
  const Scoreboard board = score(rows, {data.topologies(), data.models()});
  std::map<std::vector<std::string>, std::vector<double>> errors;
  for (const ScoredRow& row : board.rows)
    if (row.counts())
      errors[{row.row.job->model_kind, row.row.job->generation, row.row.job->framework}].push_back(
          -std::log1p(row.error));
  if (errors.empty()) throw no_row(board, files);
  std::vector<ErrorGroup> out;
  for (auto& [kind, of_kind] : errors)
    out.push_back(group_of(kOwnSource, {kind[0], kind[1], kind[2]}, std::move(of_kind)));
  return out;
}

void observe(Session& session, const std::vector<std::string>& files) {
  std::vector<std::string> traces = files;
  const auto rows = std::stable_partition(traces.begin(), traces.end(), is_trace);
  const std::vector<std::string> row_files(rows, traces.end());
  traces.erase(rows, traces.end());
  if (!row_files.empty()) session.own = errors_of_rows(row_files, session.data);
  if (!traces.empty()) session.own.push_back(error_of_traces(session, traces));
}

PredictionRanges ranges_for(const Session& session) {
  PredictionRanges out = PredictionRanges::load(session.data.prediction_errors());
  return session.own.empty() ? out : out.with_own(session.own);
}

namespace {

PredictionKind kind_in(const Session& session) {
  return kind_of(session.workload.network, session.cluster, framework_name(session.scenario.framework.name));
}

}  // namespace

PredictionRange range_of(const Session& session) { return ranges_for(session).range(kind_in(session)); }

PeakRange peak_range_in(const PredictionRanges& ranges, const PredictionKind& kind) {
  const PredictionRange r = ranges.memory_range(kind);
  return {r.p10, r.p90, rests_on(r), r.rows, r.sources};
}

PeakRange peak_range_of(const Session& session) {
  return peak_range_in(PredictionRanges::load(session.data.prediction_errors()), kind_in(session));
}

}  // namespace rehearse
