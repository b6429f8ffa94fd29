#pragma once
// A grid of scenarios: some keys take several values each, every combination is a point.

#include <string>
#include <vector>

#include "core/search/search.hpp"

namespace rehearse {

/// One key and its values, as typed.
struct Vary {
  std::string key;
  std::vector<std::string> values;
};
/// "strategy.tp=1,2,4"; `tp=1,2` means strategy.tp. Values with commas of their own are put in brackets:
/// strategy.placement=[tp,dp],[dp,tp]. A value that comes twice counts once. Throws Error (usage): no '=', no values,
/// an empty value, an unknown key.
[[nodiscard]] Vary parse_vary(const std::string& text);
/// All of them. Throws Error (usage) also where two name the same key.
[[nodiscard]] std::vector<Vary> parse_vary(const std::vector<std::string>& texts);

[[nodiscard]] std::size_t sweep_size(const std::vector<Vary>& vary);
/// Values of point `number`.
[[nodiscard]] std::vector<std::string> sweep_values(const std::vector<Vary>& vary, std::size_t number);

/// Throws Error (usage) unless `shards` (with the file of each) are the parts 1/n to n/n of one whole.
void check_shards(const std::vector<std::pair<std::string, SearchShard>>& shards);

}  // namespace rehearse
