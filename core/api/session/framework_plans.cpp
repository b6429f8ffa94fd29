#include "core/api/session/framework_plans.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/config/settings/kernels.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/search/space.hpp"

namespace rehearse {

namespace {

/// Recomputation as a scenario says it: apply_checkpoints() turned PyTorch's into modules.
void undo_checkpoints(const Scenario& asked, StrategySettings& s) {
  if (asked.stated.contains("strategy.recompute_modules") || s.recompute != Recompute::selective) return;
  if (s.recompute_modules == std::vector<std::string>{"layer"}) s.recompute = Recompute::full;
  s.recompute_modules = asked.strategy.recompute_modules;
}

}  // namespace

FrameworkPlans::FrameworkPlans(Framework framework, Scenario asked, FrameworkSite site)
    : framework_(std::move(framework)), asked_(std::move(asked)), site_(std::move(site)) {
  // What a search varies is the plan's own, as if the scenario stated it.
  for (const std::string& key : searched_keys()) asked_.stated.insert("strategy." + key);
  std::set<std::string> conditions;
  for (const FrameworkRule& rule : framework_.rules)
    for (const FrameworkCondition& c : rule.when)
      if (c.key.starts_with("strategy.")) conditions.insert(c.key);
  conditions_.assign(conditions.begin(), conditions.end());
}

std::string FrameworkPlans::key_of(const Scenario& scenario) const {
  std::string out;
  for (const std::string& key : conditions_) out += setting(scenario, key) + ' ';
  return out;
}

std::shared_ptr<const FrameworkPlans::Facts> FrameworkPlans::facts(const StrategySettings& settings) const {
  Scenario scenario = asked_;
  scenario.strategy = settings;
  undo_checkpoints(asked_, scenario.strategy);
  const std::string key = key_of(scenario);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Facts>& known = known_[key];
  if (known) return known;
  auto made = std::make_shared<Facts>();
  for (const TakenFact& t : take(framework_, scenario, site_))
    if (!t.stated && t.fact.key.starts_with("strategy.")) made->strategy.emplace_back(t.fact.key, t.fact.value);
  // Facts of the group `framework` that are settings of the strategy, too. Plans that are searched defer no gradients.
  for (const char* mapped :
       {"framework.overlap_tp_backward", "framework.scatter_gather", "framework.first_bucket", "framework.zero3_lists"})
    if (!asked_.stated.contains(mapped)) made->strategy.emplace_back(mapped, setting(scenario, mapped));
  made->training = scenario.training;
  made->kernels = scenario.kernels;
  made->checkpoints = scenario.framework.checkpoints;
  return known = std::move(made);
}

StrategySettings FrameworkPlans::as_run(const StrategySettings& settings) const {
  const std::shared_ptr<const Facts> holding = facts(settings);
  Scenario scenario = asked_;
  scenario.strategy = settings;
  undo_checkpoints(asked_, scenario.strategy);
  for (const auto& [key, value] : holding->strategy) set(scenario, key, value, framework_.id());
  scenario.framework.checkpoints = holding->checkpoints;
  apply_checkpoints(scenario);
  return scenario.strategy;
}

}  // namespace rehearse
