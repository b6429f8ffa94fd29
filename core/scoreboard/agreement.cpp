#include "core/scoreboard/agreement.hpp"

#include <cmath>
#include <map>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/play/backend.hpp"

namespace rehearse {

namespace {

AgreedRow compared(const ScoredRow& row, const Prediction& played) {
  AgreedRow out{row.row.id, row.row.source, row.prediction.step_time, played.step_time, TimeCategory::matmul, {}};
  for (int c = 0; c < kTimeCategories; ++c) {
    const auto category = static_cast<TimeCategory>(c);
    const Seconds by = played.breakdown[category] - row.prediction.breakdown[category];
    if (std::abs(by.value()) > std::abs(out.most_differs.value())) {
      out.most = category;
      out.most_differs = by;
    }
  }
  return out;
}

}  // namespace

Agreement agreement(const Scoreboard& board, const std::vector<Measurement>& rows, const PredictorPaths& paths,
                    const AgreementOptions& options) {
  (void)backends().at(options.backend);
  Agreement out{options.backend, {}, {}, {}};
  RowPredictor predictor(paths, options.backend);
  std::map<std::string, int> seen;
  std::vector<double> differences;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ScoredRow& row = board.rows[i];
    if (!row.counts() || row.row.job->gpus > options.most_gpus ||
        seen[row.row.source + row.row.file]++ % options.every != 0)
      continue;
    try {
      out.rows.push_back(compared(row, predictor.predict(*row.row.job)));
      differences.push_back(out.rows.back().difference());
    } catch (const Error& e) {
      out.refused.push_back(fmt::format("{}: {}", row.row.id, e.what()));
    }
  }
  out.difference = statistics(std::move(differences));
  return out;
}

}  // namespace rehearse
