#pragma once
// How far a prediction may be off: the likely range of a step time, and the middle of it, for jobs that nobody has
// measured (topologies/prediction_errors.json, which `validate --write-ranges` writes). Likewise of peak memory.
//
//   const auto ranges = PredictionRanges::load("topologies/prediction_errors.json");
//   const PredictionRange r = ranges.range({"experts", "hopper"});
//   // 8 of 10 measured steps take predicted * r.p10 to predicted * r.p90; the middle is predicted * r.middle.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/config/settings/forward.hpp"
#include "core/model/network.hpp"
#include "core/scoreboard/ranges/error_groups.hpp"
#include "core/scoreboard/ranges/range_fit.hpp"

namespace rehearse {

/// Factors by which a predicted step time is multiplied. Of measured steps of this kind from sources that nobody has
/// seen, a tenth take less than `p10` times their prediction and a tenth more than `p90` times.
struct PredictionRange {
  double p10 = 1, p90 = 1;
  /// Between them, in proportion: what such steps take on average, a known bias of predictions applied.
  double middle = 1;
  int rows = 0;         ///< Measured steps that the factors come from; 0: nothing is known, and all factors are 1.
  int sources = 0;      ///< Of those steps.
  std::string rows_of;  ///< Their kind in words: "dense models on hopper in megatron-core".
  std::string caution;  ///< What was never measured, in words; may be empty.
  /// Steps of the user's own that have shifted and narrowed the range; 0 for none.
  int own_rows = 0;
  /// The factors without those steps; only where there are some.
  double p10_before = 1, p90_before = 1, middle_before = 1;
  /// Two steps of one job whose predictions differ by less than this factor may well come out the other way round: what
  /// is off alike for both, the bias and the source's effect, does not count. 8 of 10 measured pairs that were
  /// predicted equal differ by less.
  double apart = 1;
};

/// The axes in use, outermost last: "tp + pp + dp", "sharded" (parameters are), "one GPU".
[[nodiscard]] std::string strategy_family(const StrategySettings& settings);
/// `framework` is what trains, as framework_name() has it; empty where none is stated.
[[nodiscard]] PredictionKind kind_of(const Network& network, const Cluster& cluster, const std::string& framework = {});

/// "models with experts on hopper in megatron-core"; "all models" where nothing is known.
[[nodiscard]] std::string words_of(const PredictionKind& kind);

class PredictionRanges {
 public:
  /// Throws Error (usage) with file and JSON path for anything missing, unknown or mistyped, and where the widest kind
  /// is absent. Peak memory may be left out: nothing is known of it then.
  [[nodiscard]] static PredictionRanges load(const std::filesystem::path& file);
  /// `memory`: of peak memory; without it memory_range() knows nothing.
  [[nodiscard]] static PredictionRanges of(const RangeFit& fit, const RangeFit* memory = nullptr);

  /// The same ranges for somebody who has measured steps: `own` is one more source. Its effect is normal around 0 as
  /// sources' effects are, and its rows tell it as far as they agree with one another; what they tell of it counts for
  /// all predictions of that source, and most for those on the same GPUs.
  [[nodiscard]] PredictionRanges with_own(std::vector<ErrorGroup> own) const;

  /// The narrowest known of: this framework on this generation; this framework; this kind of model on this generation;
  /// this kind of model; all models.
  [[nodiscard]] PredictionRange range(const PredictionKind& kind) const;
  /// The same of peak memory as an allocator counts it. The user's own steps do not count.
  [[nodiscard]] PredictionRange memory_range(const PredictionKind& kind) const;
  /// Kinds of jobs that some source measured in `framework`, on each generation of GPUs.
  [[nodiscard]] std::vector<PredictionKind> measured_in(const std::string& framework) const;
  /// The file's text: load() of it gives the same ranges.
  [[nodiscard]] std::string to_json() const;

 private:
  std::vector<RangeCell> cells_, memory_cells_;
  std::vector<ErrorGroup> own_;
};

}  // namespace rehearse
