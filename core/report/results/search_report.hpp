#pragma once
// What `search` prints: the best plans with what each trades, the front, and why the first one wins. The JSON can be
// read again, so that the parts of a divided search can be joined.

#include <string>
#include <vector>

#include "core/price/stage_memory.hpp"
#include "core/report/formats/document.hpp"
#include "core/scoreboard/prediction_range.hpp"
#include "core/search/search.hpp"

namespace rehearse {

inline constexpr const char* kSearchSchema = "rehearse/search/v1";

/// What turns step times into other figures.
struct StepFigures {
  double tokens_per_step = 0;  ///< 0 where samples are no sequences.
  double samples_per_step = 0;
  std::string samples = "samples";  ///< What they are called: "images".
  double model_flops = 0;           ///< Of a step.
  FlopsPerSecond peak;              ///< Of all devices together, in the precision of the training.
  int gpus = 1;
  Watts power;                 ///< Of all machines, at most; 0: not known.
  Dollars price_per_gpu_hour;  ///< 0: not known.
};

struct SearchReport {
  std::string version;        ///< Of the program.
  std::string scenario;       ///< Name.
  std::string file;           ///< As it was given.
  std::string scenario_json;  ///< Resolved.
  std::string subject;        ///< "gpt3_175b (174.6 B parameters) on 1,024 GPUs, ...".
  Objective objective = Objective::step_time;
  std::size_t top = 10;
  std::string backend;  ///< That played the best; empty: none did.
  SearchShard shard;
  std::vector<std::string> fixed;  ///< As given: "tp=8".
  Bytes most_memory{0};
  StepFigures figures;
  /// How far predicted steps may be off, and by how much on average, which is the same for all plans. No rows: nothing
  /// is said of it.
  PredictionRange range;
  SearchResult result;
  /// The same of their peak memory.
  PeakRange peak{};
  std::string own_refused{};  ///< Why the scenario's own strategy is no plan for its cluster; empty where it is one.
};

/// The plan with its times as they are answered: those modelled, with the range's known bias applied.
[[nodiscard]] Evaluation with_bias(Evaluation plan, const PredictionRange& range);
[[nodiscard]] Found with_bias(Found plan, const PredictionRange& range);
[[nodiscard]] SearchResult with_bias(SearchResult result, const PredictionRange& range);

/// Whether predictions do not tell the plan from the best (PredictionRange::apart).
[[nodiscard]] bool tied(const SearchReport& report, const Found& plan);

/// Tables and text show `top` plans; JSON and csv all that were kept, the front's last.
[[nodiscard]] Document search_document(const SearchReport& report);

/// One part of a divided search, as search_document wrote it. Of `result`, settings are left to be filled in from
/// `overrides`.
struct SearchPart {
  SearchReport report;
  std::vector<std::vector<std::string>> overrides;  ///< "strategy.tp=8", by candidate: report.result.best.
  std::vector<std::size_t> front;                   ///< Indices of candidates.
};
/// Throws Error (usage) with the place of what is missing or wrong.
[[nodiscard]] SearchPart read_search_part(const std::string& json, const std::string& origin);

}  // namespace rehearse
