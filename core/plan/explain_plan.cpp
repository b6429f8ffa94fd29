// What is derived from the table of keys for people.

#include <fmt/format.h>

#include "core/base/near_names.hpp"
#include "core/config/key_help.hpp"
#include "core/plan/plan_keys.hpp"

namespace rehearse {

using plan_schema::Key;

namespace {

constexpr std::string_view kRoot = "plan";

std::string line(const std::string& key, const std::string& help, const std::string& fallback) {
  return fmt::format("  {:<38} {}{}\n", key, help, fallback.empty() ? "" : fmt::format(" [{}]", fallback));
}

std::string full(const std::string& key) { return fmt::format("{}.{}", kRoot, key); }

/// The value that a key has anyway is an example, too, without the quotes that only JSON needs.
std::string example_of(const Key& k) {
  std::string value = k.example.empty() && !k.required ? k.fallback : k.example;
  if (value.starts_with('"')) value = value.substr(1, value.size() - 2);
  if (value.empty()) return {};
  std::string key = k.key;
  if (key.starts_with("candidates.")) key.insert(std::string_view("candidates").size(), ".0");
  return key + "=" + value;
}

KeyHelp help_of(const Key& k) { return {full(k.key), k.type, k.range, k.fallback, k.help}; }

std::string explain_key(const Key& k) { return help_page(help_of(k), example_of(k), k.detail); }

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
  return out +
         "\nmodel, framework, training, kernels, strategy and calibration are as in a scenario; what strategy states "
         "is not searched.\n";
}

}  // namespace

std::vector<KeyHelp> plan_keys() {
  std::vector<KeyHelp> out;
  for (const Key& k : plan_schema::keys()) out.push_back(help_of(k));
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
