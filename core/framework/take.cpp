// What a scenario takes from a profile.

#include <algorithm>
#include <cstdlib>
#include <set>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/framework/framework.hpp"

namespace rehearse {

namespace {

bool met(const FrameworkCondition& c, const Scenario& scenario, const FrameworkSite& site) {
  const std::string value = c.key == "gpu_generation" ? '"' + site.gpu_generation + '"' : setting(scenario, c.key);
  if (c.any_of.empty()) return std::strtod(value.c_str(), nullptr) > c.above;
  return std::find(c.any_of.begin(), c.any_of.end(), value) != c.any_of.end();
}

bool met(const FrameworkRule& rule, const Scenario& scenario, const FrameworkSite& site) {
  return std::all_of(rule.when.begin(), rule.when.end(), [&](const auto& c) { return met(c, scenario, site); });
}

std::string text_of(const FrameworkRule& rule) {
  std::string out;
  for (const FrameworkCondition& c : rule.when) out += (out.empty() ? "" : ", ") + c.text();
  return out.empty() ? "always" : out;
}

/// A fact, and the rule that it is from.
struct Held {
  const FrameworkRule* rule;
  const FrameworkFact* fact;
  const FrameworkRule* against = nullptr;  ///< Goes as far as `rule`, and gives the key another value ...
  std::string value{};                     ///< ... which is this one.
};

/// The facts that hold, by key, each from the rule that goes first.
using Facts = std::map<std::string, Held>;

void add(const FrameworkRule& rule, Facts& to) {
  for (const FrameworkFact& fact : rule.facts) {
    const auto [at, fresh] = to.try_emplace(fact.key, Held{&rule, &fact});
    Held& held = at->second;
    if (fresh || held.rule->precedence > rule.precedence) continue;
    if (held.rule->precedence < rule.precedence)
      held = {&rule, &fact};
    else if (held.fact->value != fact.value)
      held.against = &rule, held.value = fact.value;
  }
}

void refuse_contradictions(const Facts& facts, const Scenario& scenario, const std::string& framework) {
  for (const auto& [key, held] : facts)
    if (held.against != nullptr && !scenario.stated.contains(key))
      throw Error(ErrorKind::usage,
                  fmt::format("{} is {} ({}) and {} ({})", key, held.fact->value, text_of(*held.rule), held.value,
                              text_of(*held.against)),
                  framework, "the profile contradicts itself here: state the key in the scenario");
}

void set_all(const Facts& facts, Scenario& scenario) {
  for (const auto& [key, held] : facts)
    if (!scenario.stated.contains(key)) set(scenario, key, held.fact->value, held.fact->source.text);
}

}  // namespace

std::vector<TakenFact> take(const Framework& framework, Scenario& scenario, const FrameworkSite& site) {
  // Conditions see what holds always: whether a framework compiles unless it is told otherwise, for one.
  Facts always;
  for (const FrameworkRule& rule : framework.rules)
    if (rule.when.empty()) add(rule, always);
  Scenario usual = scenario;
  set_all(always, usual);
  Facts facts;
  for (const FrameworkRule& rule : framework.rules)
    if (met(rule, usual, site)) add(rule, facts);
  refuse_contradictions(facts, scenario, framework.id());
  set_all(facts, scenario);
  std::vector<TakenFact> out;
  for (const auto& [key, held] : facts) out.push_back({*held.fact, framework.id(), scenario.stated.contains(key)});
  return out;
}

void apply_checkpoints(Scenario& scenario) {
  StrategySettings& s = scenario.strategy;
  if (scenario.framework.checkpoints != CheckpointStyle::pytorch ||
      scenario.stated.contains("strategy.recompute_modules"))
    return;
  if (s.recompute == Recompute::full && s.recompute_method == RecomputeMethod::uniform) {
    s.recompute = Recompute::selective;
    s.recompute_modules = {"layer"};
  } else if (s.recompute == Recompute::selective) {
    s.recompute_modules = {"every_second_product"};
  }
}

}  // namespace rehearse
