// What is derived from the table of keys for people.

#include <fmt/format.h>

#include "core/plan/plan_keys.hpp"
#include "core/registry/near_names.hpp"

namespace rehearse {

using plan_schema::Key;

namespace {

constexpr std::string_view kRoot = "plan";

std::string line(const std::string& key, const std::string& help, const std::string& fallback) {
  return fmt::format("  {:<38} {}{}\n", key, help, fallback.empty() ? "" : fmt::format(" [{}]", fallback));
}

std::string full(const std::string& key) { return fmt::format("{}.{}", kRoot, key); }

std::string explain_key(const Key& k) {
  std::string out = fmt::format("{}: {}\n\n  type     {}\n", full(k.key), k.help, k.type);
  if (!k.range.empty()) out += fmt::format("  range    {}\n", k.range);
  if (!k.fallback.empty()) out += fmt::format("  default  {}\n", k.fallback);
  if (const std::string example = k.example.empty() ? k.fallback : k.example; !example.empty()) {
    std::string key = k.key;
    if (key.starts_with("candidates.")) key.insert(std::string_view("candidates").size(), ".0");
    out += fmt::format("  example  --set {}={}\n", key, example);
  }
  if (!k.detail.empty()) out += fmt::format("\n{}\n", k.detail);
  return out;
}

std::string members_of(const std::string& group) {
  std::string out;
  for (const Key& k : plan_schema::keys())
    if (k.key.starts_with(group + ".")) out += line(full(k.key), k.help, k.fallback);
  return out;
}

std::string explain_all() {
  std::string out = fmt::format("Keys of a plan file ({}); explain plan.KEY says more.\n\n", kPlanSchema);
  for (const Key& k : plan_schema::keys())
    if (k.group().empty()) out += line(full(k.key), k.help, k.fallback);
  for (const auto& [name, help] : plan_schema::groups()) out += line(full(name), help, "");
  return out + "\nmodel, training, kernels, strategy and calibration are as in a scenario; what strategy states is not searched.\n";
}

}  // namespace

std::vector<KeyHelp> plan_keys() {
  std::vector<KeyHelp> out;
  for (const Key& k : plan_schema::keys()) out.push_back({full(k.key), k.type, k.range, k.fallback, k.help});
  return out;
}

std::string explain_plan(std::string_view key) {
  if (key == kRoot) return explain_all();
  const std::string name(key.starts_with("plan.") ? key.substr(kRoot.size() + 1) : key);
  std::vector<std::string> valid;
  for (const Key& k : plan_schema::keys()) {
    if (k.key == name) return explain_key(k);
    valid.push_back(full(k.key));
  }
  for (const auto& [group, help] : plan_schema::groups()) {
    if (group == name) return fmt::format("{}: {}\n\n{}", full(group), help, members_of(group));
    valid.push_back(full(group));
  }
  for (const Key& k : plan_schema::keys())
    if (k.name() == name) return explain_key(k);
  for (const std::string& own : plan_schema::scenario_keys())
    if (name == own || name.starts_with(own + ".")) return explain(name);
  throw unknown_of_many("key", full(name), valid, "rehearse explain plan");
}

}  // namespace rehearse
