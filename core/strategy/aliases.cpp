#include "core/strategy/aliases.hpp"

#include <algorithm>
#include <cctype>
#include <string>

namespace rehearse {

namespace {

std::vector<StrategyAlias>& entered_aliases() {
  static std::vector<StrategyAlias> list;
  return list;
}

}  // namespace

bool name_strategy(const std::string& strategy, const std::vector<FrameworkName>& names) {
  for (const FrameworkName& n : names) entered_aliases().push_back({n.name, n.framework, strategy, n.settings});
  return true;
}

const std::vector<StrategyAlias>& strategy_aliases() {
  static const std::vector<StrategyAlias> table = [] {
    std::vector<StrategyAlias> t = entered_aliases();
    std::sort(t.begin(), t.end(), [](const StrategyAlias& a, const StrategyAlias& b) { return a.name < b.name; });
    return t;
  }();
  return table;
}

const StrategyAlias* find_strategy_alias(std::string_view name) {
  const auto& all = strategy_aliases();
  const auto folded = [](std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
  };
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const StrategyAlias& a) { return folded(a.name) == folded(name); });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace rehearse
