#pragma once
// How far a predicted step time may be off: quantiles of measured over predicted step times by kind of model, GPU generation and strategy
// (topologies/prediction_errors.json, schema rehearse/prediction_errors/v1).

#include <filesystem>
#include <string>
#include <vector>

#include "core/model/network.hpp"
#include "core/plan/plan.hpp"

namespace rehearse {

class StepRanges {
 public:
  /// Throws Error (usage) with file and JSON path of what is wrong, and where no group is of all rows.
  [[nodiscard]] static StepRanges load(const std::filesystem::path& file);

  /// The narrowest group that has rows of: this model, generation and strategy; this model and generation; this model; all rows.
  [[nodiscard]] StepRange range(const Network& network, const std::string& generation, const StrategySettings& settings) const;

 private:
  struct Group {
    std::string model, generation, strategy;  ///< Empty: any.
    int rows = 0;
    double p10 = 1, p90 = 1;
  };
  std::vector<Group> groups_;
};

}  // namespace rehearse
