#pragma once
// A grid of scenarios: some keys take several values each, every combination is a point.

#include <functional>
#include <string>
#include <vector>

#include "core/report/document.hpp"
#include "core/search/search_report.hpp"

namespace rehearse {

inline constexpr const char* kSweepSchema = "rehearse/sweep/v1";

/// One key and its values, as typed.
struct Vary {
  std::string key;
  std::vector<std::string> values;
};
/// "strategy.tp=1,2,4"; `tp=1,2` means strategy.tp. Values with commas of their own are put in brackets:
/// strategy.placement=[tp,dp],[dp,tp]. A value that comes twice counts once. Throws Error (usage): no '=', no values,
/// an empty value, an unknown key.
[[nodiscard]] Vary parse_vary(const std::string& text);
/// All of them. Throws Error (usage) also where two name the same key.
[[nodiscard]] std::vector<Vary> parse_vary(const std::vector<std::string>& texts);

struct SweepPoint {
  std::vector<std::string> values;  ///< By SweepReport::vary.
  Evaluation evaluation;            ///< With `refusal` where the point makes no sense.
  std::string plan;                 ///< plan_label of it.
  StepFigures figures;              ///< Points may differ in cluster and batch.
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

[[nodiscard]] std::size_t sweep_size(const std::vector<Vary>& vary);
/// Values of point `number`.
[[nodiscard]] std::vector<std::string> sweep_values(const std::vector<Vary>& vary, std::size_t number);

[[nodiscard]] Document sweep_document(const SweepReport& report);

/// From the JSON of parts (`--shard`) to that of the whole sweep, and its document. Throws Error (usage) where parts
/// are missing, come twice or belong to different sweeps. `parts` are texts with the names of their files.
[[nodiscard]] Document merged_sweep(const std::vector<std::pair<std::string, std::string>>& parts);

/// Throws Error (usage) unless `shards` (with the file of each) are the parts 1/n to n/n of one whole.
void check_shards(const std::vector<std::pair<std::string, SearchShard>>& shards);

}  // namespace rehearse
