#pragma once
// A framework's facts, plan by plan: conditions of a profile ask for axes, sharding and recomputation, which differ
// from one plan of a search to the next, and from a scenario to a change of it.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/config/scenario.hpp"
#include "core/framework/framework.hpp"

namespace rehearse {

/// Safe to call from several threads. Prices are the scenario's: whether kernels are launched as graphs
/// (kernels.cuda_graphs) is not asked again.
class FrameworkPlans {
 public:
  /// `asked` is the scenario before it took anything, with its axes resolved.
  FrameworkPlans(Framework framework, Scenario asked, FrameworkSite site);

  /// What of the scenario follows from the framework where the strategy is another one.
  struct Facts {
    std::vector<std::pair<std::string, std::string>> strategy;  ///< Keys and values, as JSON.
    TrainingSettings training;
    KernelSettings kernels;
    CheckpointStyle checkpoints = CheckpointStyle::megatron;
  };
  [[nodiscard]] std::shared_ptr<const Facts> facts(const StrategySettings& settings) const;
  /// `settings` with the facts that hold for them, where the scenario does not state the key and no search varies it;
  /// recomputation as the framework's checkpoints do it. The same again for what it returned.
  [[nodiscard]] StrategySettings as_run(const StrategySettings& settings) const;

 private:
  [[nodiscard]] std::string key_of(const Scenario& scenario) const;

  Framework framework_;
  Scenario asked_;
  FrameworkSite site_;
  std::vector<std::string> conditions_;  ///< Keys of the strategy that rules ask for.
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const Facts>> known_;  ///< By the values of those keys.
};

}  // namespace rehearse
