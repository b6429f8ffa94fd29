#pragma once
// How far a prediction may be off, from the scoreboard's own errors on measured steps of its kind
// (topologies/prediction_errors.json).

#include <filesystem>
#include <string>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/config/settings/forward.hpp"
#include "core/model/network.hpp"

namespace rehearse {

struct Scoreboard;  // scoreboard.hpp

/// Factors by which a predicted step time is multiplied: of the measured steps of this kind, a tenth took less than
/// `p10` times their prediction and a tenth more than `p90` times.
struct PredictionRange {
  double p10 = 1, p90 = 1;
  int rows = 0;         ///< Measured steps that the factors come from.
  std::string rows_of;  ///< Their kind in words: "dense models on hopper, tp + pp".
};

/// What kind of job a prediction is for; an empty text is any.
struct PredictionKind {
  std::string model;       ///< "dense", "experts" or "images".
  std::string generation;  ///< Of the GPUs; empty where a cluster mixes several.
  std::string strategy;    ///< strategy_family().
};

/// The axes in use, outermost last: "tp + pp + dp", "sharded" (parameters are), "one GPU".
[[nodiscard]] std::string strategy_family(const StrategySettings& settings);
[[nodiscard]] PredictionKind kind_of(const Network& network, const StrategySettings& settings, const Cluster& cluster);

class PredictionRanges {
 public:
  /// A kind with fewer measured steps is answered by the next wider one.
  static constexpr int kFewestRows = 8;

  /// Throws Error (usage) with file and JSON path for anything missing, unknown or mistyped, and where the widest kind
  /// is absent.
  [[nodiscard]] static PredictionRanges load(const std::filesystem::path& file);
  /// From rows that count: quantiles of measured over predicted, for every kind with kFewestRows, rounded to a
  /// thousandth.
  [[nodiscard]] static PredictionRanges of(const Scoreboard& board);

  /// The narrowest known of: this kind; this model and generation; this model; all rows.
  [[nodiscard]] PredictionRange range(const PredictionKind& kind) const;
  /// The file's text: load() of it gives the same ranges.
  [[nodiscard]] std::string to_json() const;

 private:
  struct Group {
    PredictionKind kind;
    int rows = 0;
    double p10 = 1, p90 = 1;
  };
  std::vector<Group> groups_;
};

}  // namespace rehearse
