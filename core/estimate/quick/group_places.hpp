#pragma once
// Whether a few ranks show how the groups of all lie on their nodes.

#include <optional>
#include <tuple>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/price/cost_model.hpp"

namespace rehearse {

class GroupPlaces {
 public:
  GroupPlaces(const Cluster& cluster, const CostModel& cost, bool experts)
      : cluster_(cluster), cost_(cost), experts_(experts) {}
  [[nodiscard]] bool few_tell(const StrategySettings& s);
  [[nodiscard]] bool pairs_alike();

 private:
  [[nodiscard]] bool groups_alike(int size, int stride);

  const Cluster& cluster_;
  const CostModel& cost_;
  bool experts_;
  std::vector<std::tuple<int, int, bool>> groups_;  ///< Size, stride, groups_alike.
  std::optional<bool> even_node_;
};

}  // namespace rehearse
