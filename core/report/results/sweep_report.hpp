#pragma once
// What `sweep` prints: every point of a grid of scenarios, and the parts of a divided sweep joined.

#include <string>
#include <utility>
#include <vector>

#include "core/report/formats/document.hpp"
#include "core/report/results/search_report.hpp"
#include "core/search/sweep.hpp"

namespace rehearse {

inline constexpr const char* kSweepSchema = "rehearse/sweep/v1";

struct SweepPoint {
  std::vector<std::string> values;  ///< By SweepReport::vary.
  Evaluation evaluation;            ///< With `refusal` where the point makes no sense.
  std::string plan;                 ///< plan_label of it.
  StepFigures figures;              ///< Points may differ in cluster and batch.
  PredictionRange range{};          ///< Of the step time, and so in its bias.
};

struct SweepReport {
  std::string version, scenario, file, scenario_json;
  std::string backend;  ///< Empty: closed form.
  std::vector<Vary> vary;
  SearchShard shard;
  bool interrupted = false;
  std::vector<std::size_t> numbers;  ///< Of the points that were evaluated, rising: the first key varies slowest.
  std::vector<SweepPoint> points;    ///< By `numbers`.
};

[[nodiscard]] Document sweep_document(const SweepReport& report);

/// From the JSON of parts (`--shard`) to that of the whole sweep, and its document. Throws Error (usage) where parts
/// are missing, come twice or belong to different sweeps. `parts` are texts with the names of their files.
[[nodiscard]] Document merged_sweep(const std::vector<std::pair<std::string, std::string>>& parts);

}  // namespace rehearse
