#include "core/plan/plan_scenario.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/shell_word.hpp"
#include "core/config/json_file.hpp"
#include "core/plan/plan_keys.hpp"
#include "core/search/space.hpp"

namespace rehearse {

namespace {

using nlohmann::json;

json first_machine(const json& plan) {
  for (const json& candidate : plan.at("candidates"))
    if (candidate.contains("machine")) return {{"machine", candidate["machine"]}, {"nodes", 1}};
  return plan.at("candidates").front().at("cluster");
}

void add_cluster(const PlanCandidate& candidate, int machines, std::vector<std::string>& out) {
  if (candidate.machine.empty()) {
    out.push_back("cluster=" + candidate.cluster);
    return;
  }
  out.push_back("cluster.machine=" + candidate.machine);
  out.push_back(fmt::format("cluster.nodes={}", machines));
  if (!candidate.network.empty()) out.push_back("cluster.network=" + candidate.network);
}

}  // namespace

Scenario plan_scenario(std::string_view text, const std::string& origin, const std::vector<std::string>& overrides) {
  (void)parse_plan(text, origin);
  const json plan = parse_json(text, origin);
  json scenario{{"schema", kScenarioSchema}, {"cluster", first_machine(plan)}};
  for (const std::string& key : plan_schema::scenario_keys())
    if (plan.contains(key)) scenario[key] = plan[key];
  return parse_scenario(scenario.dump(), origin, overrides);
}

std::vector<std::string> point_overrides(const Plan& plan, const PlanCandidate& candidate, const PlanPoint& point) {
  std::vector<std::string> out;
  add_cluster(candidate, point.machines, out);
  const StepChoice& step = point.step;
  if (step.global_batch != plan.base.training.global_batch)
    out.push_back(fmt::format("training.global_batch={}", step.global_batch));
  const SettingTexts own = setting_texts(plan.base.strategy);
  for (const auto& text : setting_texts(step.strategy))
    if (std::find(own.begin(), own.end(), text) == own.end())
      out.push_back(fmt::format("strategy.{}={}", text.first, text.second));
  if (step.strategy.balance != plan.base.strategy.balance)
    out.push_back(fmt::format("strategy.balance={}", name_of(step.strategy.balance)));
  return out;
}

std::vector<std::string> scenario_overrides(const std::vector<std::string>& overrides) {
  std::vector<std::string> out;
  for (std::string text : overrides) {
    if (text.starts_with("plan.")) text = text.substr(std::string_view("plan.").size());
    const std::string key = text.substr(0, text.find_first_of(".="));
    const std::vector<std::string>& known = plan_schema::scenario_keys();
    if (std::find(known.begin(), known.end(), key) != known.end()) out.push_back(std::move(text));
  }
  return out;
}

std::string command_line(const std::vector<std::string>& words, const std::vector<std::string>& overrides) {
  std::string out = "rehearse";
  for (const std::string& word : words) out += " " + shell_word(word);
  for (const std::string& text : overrides) out += " --set " + shell_word(text);
  return out;
}

}  // namespace rehearse
