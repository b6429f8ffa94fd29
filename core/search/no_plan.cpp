#include "core/search/no_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/search/space.hpp"

namespace rehearse {

namespace {

std::optional<std::string> value_in(const StrategySettings& settings, const std::string& key) {
  for (const auto& [k, value] : setting_texts(settings))
    if (k == key) return value;
  return {};
}

/// Values of `key` over a space, refused plans included: those of every mesh, and of what it can be combined with.
std::set<std::string> values_over(const Space& space, const std::string& key) {
  constexpr std::size_t kEnough = 100'000;
  std::set<std::string> out;
  std::size_t seen = 0;
  const auto add = [&](const Space::Plan& plan) {
    ++seen;
    if (const auto value = value_in(space.settings(plan), key)) out.insert(*value);
  };
  for (std::uint32_t m = 0; m < space.meshes().size() && seen < kEnough; ++m) {
    const Space::Lists& lists = space.lists(m);
    if (lists.pipelines.empty() || lists.shardings.empty()) continue;
    Space::Plan plan;
    plan.mesh = m;
    plan.context = lists.contexts.front();
    for (plan.pipeline = 0; plan.pipeline < lists.pipelines.size(); ++plan.pipeline) add(plan);
    plan.pipeline = 0;
    for (plan.sharding = 0; plan.sharding < lists.shardings.size(); ++plan.sharding) add(plan);
  }
  return out;
}

std::optional<double> number_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0' ? std::optional(value) : std::nullopt;
}

/// Numbers by their distance from the wanted one, at most eight; other texts as they are.
std::vector<std::string> nearest(const std::set<std::string>& values, const std::string& wanted) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> out(values.begin(), values.end());
  const auto far = [&](const std::string& text) {
    const auto value = number_of(text), aim = number_of(wanted);
    return value && aim ? std::abs(std::log(std::max(*value, 0.5) / std::max(*aim, 0.5))) : 0;
  };
  std::stable_sort(out.begin(), out.end(),
                   [&](const std::string& a, const std::string& b) { return far(a) < far(b); });
  if (out.size() > kShown) out.resize(kShown);
  return out;
}

}  // namespace

Error no_plan(const std::string& what, const Workload& workload, const StrategySettings& own, int devices,
              const std::set<std::string>& fixed) {
  for (const std::string& key : fixed) {
    const auto wanted = value_in(own, key);
    std::set<std::string> others = fixed;
    others.erase(key);
    if (!wanted) continue;
    try {
      const std::set<std::string> values = values_over(Space(workload, own, devices, others), key);
      if (values.empty() || values.contains(*wanted)) continue;
      return {ErrorKind::usage, fmt::format("no plan has {} {}", key, *wanted), "strategy." + key,
              fmt::format("the nearest that plans on {} devices have: {}", devices,
                          fmt::join(nearest(values, *wanted), ", "))};
    } catch (const Error&) {  // Empty for the others' sake.
    }
  }
  return {ErrorKind::usage, what, "strategy", "fix fewer settings, or change the cluster's size"};
}

}  // namespace rehearse
