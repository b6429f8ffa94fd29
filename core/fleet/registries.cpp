#include "core/fleet/order.hpp"
#include "core/fleet/placement.hpp"
#include "core/fleet/quota.hpp"
#include "core/fleet/rule.hpp"

namespace rehearse::fleet {

Registry<OrderFactory>& orders() {
  static Registry<OrderFactory> registry("order of jobs");
  return registry;
}

Registry<RuleFactory>& rules() {
  static Registry<RuleFactory> registry("rule");
  return registry;
}

Registry<QuotaFactory>& quotas() {
  static Registry<QuotaFactory> registry("quota");
  return registry;
}

Registry<PlacementFactory>& placements() {
  static Registry<PlacementFactory> registry("placement");
  return registry;
}

}  // namespace rehearse::fleet
