#pragma once
// The names that frameworks give to strategies, and the settings that mean the same here. Each
// strategy enters them in its own file.

#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

struct StrategyAlias {
  std::string name;       ///< As its users write it: "DistributedDataParallel", "--use-distributed-optimizer".
  std::string framework;  ///< "PyTorch"
  std::string strategy;   ///< Registered strategy.
  std::string settings;   ///< Keys of a scenario: "strategy.dp=N, framework.first_bucket=1MiB".
};

/// The same in the file of its strategy.
struct FrameworkName {
  std::string name, framework, settings;
};
/// Enters what frameworks call `strategy`, from its own file. Returns true, for static initialisers.
bool name_strategy(const std::string& strategy, const std::vector<FrameworkName>& names);

/// Sorted by name; every strategy is registered.
[[nodiscard]] const std::vector<StrategyAlias>& strategy_aliases();
/// Upper and lower case are the same; nullptr where no framework uses the name.
[[nodiscard]] const StrategyAlias* find_strategy_alias(std::string_view name);

}  // namespace rehearse
