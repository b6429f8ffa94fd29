#include "core/scoreboard/left_out.hpp"

#include <algorithm>
#include <iterator>
#include <map>

#include "core/price/calibration/calibration.hpp"

namespace rehearse {

namespace {

std::vector<double> errors_of(const std::vector<ScoredRow>& rows) {
  std::vector<double> out;
  for (const ScoredRow& r : rows)
    if (r.counts()) out.push_back(r.error);
  return out;
}

/// Every row that names the source, with its number among them: fitted are those whose number is a multiple of `every`.
struct SourceRows {
  std::vector<Measurement> rows;
  std::vector<ScoredRow> scored, unseen;
};

SourceRows rows_of(const Scoreboard& board, const std::vector<Measurement>& rows, const std::string& source,
                   int every) {
  SourceRows out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!holds(rows[i].source, source)) continue;
    if (static_cast<int>(out.rows.size()) % every != 0) out.unseen.push_back(board.rows[i]);
    out.rows.push_back(rows[i]);
    out.scored.push_back(board.rows[i]);
  }
  return out;
}

/// Rows that no source of constants names, by kind of model: nothing is withdrawn for them. Their errors go into
/// `errors` too.
std::vector<LeftOut> rest_of(const Scoreboard& board, const std::vector<Measurement>& rows,
                             const std::vector<LeftOut>& sources, std::vector<double>& errors) {
  std::map<std::string, std::vector<double>> by_kind;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto names = [&](const LeftOut& s) { return holds(rows[i].source, s.source); };
    if (!board.rows[i].counts() || std::any_of(sources.begin(), sources.end(), names)) continue;
    by_kind[board.rows[i].row.job->model_kind].push_back(board.rows[i].error);
    errors.push_back(board.rows[i].error);
  }
  std::vector<LeftOut> out;
  for (auto& [kind, of_kind] : by_kind) {
    const ErrorStatistics all = statistics(std::move(of_kind));
    out.push_back({"sources that gave none, " + kind, 0, 0, all, all, all});
  }
  return out;
}

}  // namespace

std::vector<LeftOut> leave_out(const Scoreboard& board, const std::vector<Measurement>& rows,
                               const PredictorPaths& paths, const ScoreOptions& options) {
  std::map<std::string, std::vector<StepConstant>> by_source;
  for (const StepConstant& c : load_step_constants(paths.topologies / "calibration")) by_source[c.rows_of].push_back(c);
  std::vector<LeftOut> out;
  std::vector<double> pooled, unseen;
  const auto pool = [](std::vector<double>& into, const std::vector<double>& errors) {
    into.insert(into.end(), errors.begin(), errors.end());
  };
  for (const auto& [source, constants] : by_source) {
    const SourceRows of = rows_of(board, rows, source, constants.front().every);
    if (of.rows.empty()) continue;
    ScoreOptions without = options;
    without.without = source;
    without.progress = {};
    const std::vector<double> errors = errors_of(score(of.rows, paths, without).rows);
    pool(pooled, errors);
    pool(unseen, errors_of(of.unseen));
    LeftOut entry{source,
                  static_cast<int>(constants.size()),
                  0,
                  statistics(errors_of(of.scored)),
                  statistics(errors_of(of.unseen)),
                  statistics(errors)};
    entry.rows_fitted = static_cast<int>(of.rows.size() - of.unseen.size());
    out.push_back(std::move(entry));
  }
  if (out.empty()) return out;
  std::vector<double> rest;
  std::vector<LeftOut> others = rest_of(board, rows, out, rest);
  pool(pooled, rest);
  pool(unseen, rest);
  LeftOut all{"all", 0, 0, board.time, statistics(std::move(unseen)), statistics(std::move(pooled))};
  for (const LeftOut& s : out) {
    all.constants += s.constants;
    all.rows_fitted += s.rows_fitted;
  }
  std::move(others.begin(), others.end(), std::back_inserter(out));
  out.push_back(std::move(all));
  return out;
}

}  // namespace rehearse
