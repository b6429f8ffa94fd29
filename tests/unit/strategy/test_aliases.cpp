// The names people know lead to registered strategies and to keys that exist.

#include <algorithm>

#include "core/config/scenario.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/strategy.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

TEST_CASE("every name a framework uses means a registered strategy and known keys") {
  for (const StrategyAlias& alias : strategy_aliases()) {
    INFO(alias.name);
    CHECK_NOTHROW(strategies().at(alias.strategy));
    for (std::size_t at = alias.settings.find("strategy."); at != std::string::npos;
         at = alias.settings.find("strategy.", at + 1)) {
      const std::string key = alias.settings.substr(
          at, alias.settings.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.", at) - at);
      CHECK_NOTHROW(explain(key));
    }
    CHECK(find_strategy_alias(alias.name) == &alias);
  }
  CHECK(find_strategy_alias("NoSuchThing") == nullptr);
  REQUIRE(find_strategy_alias("keras") != nullptr);  // However it is written.
  CHECK(find_strategy_alias("keras")->strategy == "data_parallel");
}

TEST_CASE("no name stands for two things") {
  const auto& all = strategy_aliases();
  CHECK(std::adjacent_find(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name >= b.name; }) ==
        all.end());
  const auto names = strategies().names();
  for (const StrategyAlias& alias : all) CHECK(std::find(names.begin(), names.end(), alias.name) == names.end());
}
