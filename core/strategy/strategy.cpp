#include "core/strategy/strategy.hpp"
#include "core/strategy/workload.hpp"

#include <algorithm>

namespace rehearse {

Registry<std::shared_ptr<const Strategy>>& strategies() {
  static Registry<std::shared_ptr<const Strategy>> registry("strategy");
  return registry;
}

bool in_expert_view(const Layout& layout) {
  return std::any_of(layout.begin(), layout.end(),
                     [](const auto& l) { return l.first == Axis::etp || l.first == Axis::ep || l.first == Axis::edp; });
}

std::vector<std::string> active_strategies(const PlanRequest& request) {
  std::vector<std::string> out;
  for (const auto& entry : strategies().entries())
    if (entry.value->active(request)) out.push_back(entry.name);
  return out;
}

void check_strategies(const PlanRequest& request, PlanChecks which) {
  for (const auto& entry : strategies().entries()) {
    if (!entry.value->active(request)) continue;
    if (which != PlanChecks::others) entry.value->check_axes(request);
    if (which != PlanChecks::axes) entry.value->check(request);
  }
}

LayoutPlan plan_layouts(const PlanRequest& request) {
  LayoutPlan plan;
  for (const BlockSpec& block : request.workload.network.blocks)
    plan.blocks.push_back({std::vector<Layout>(block.tensors.size()), std::vector<Layout>(block.params.size())});
  check_strategies(request);
  for (const auto& entry : strategies().entries())
    if (entry.value->active(request)) entry.value->assign(request, plan);
  return plan;
}

}  // namespace rehearse
