#include "core/search/plan_bounds.hpp"

#include <unordered_map>

namespace rehearse {

void PlanBounds::work_out(const std::vector<char>& known, const Tell& tell) {
  relax(tell);
  bounds_.resize(plans_.size());
  const auto bound_plans = [&](bool by_sibling) {
    in_turns(options_.jobs, options_.ended(), quick_, {0, plans_.size()}, "bounding", tell, [&](QuickEvaluator&, std::size_t position) {
      const auto i = static_cast<std::uint32_t>(position);
      const Relaxed& r = relaxed_[relaxed_of_[i]];
      if (known[i] == 0 && r.known == by_sibling) bounds_[i] = by_sibling ? bound(r, gathers_, settings(i)) : by_one_microbatch(settings(i));
    });
  };
  bound_plans(true);
  price_microbatches(known, tell);
  bound_plans(false);
}

/// Plans that are one where nothing is sharded or moved share what is worked out.
void PlanBounds::relax(const Tell& tell) {
  std::unordered_map<std::uint64_t, std::uint32_t> index;
  std::vector<std::uint32_t> example;
  relaxed_of_.resize(plans_.size());
  for (std::uint32_t i = 0; i < plans_.size(); ++i) {
    Space::Plan p = space_.plans()[plans_[i]];
    p.sharding = p.offload = 0;
    const auto [at, made] = index.emplace(plan_number(p), static_cast<std::uint32_t>(example.size()));
    if (made) example.push_back(i);
    relaxed_of_[i] = at->second;
  }
  relaxed_.resize(example.size());
  over(example.size(), "bounding", tell, [&](std::size_t k) { return example[k]; }, [&](QuickEvaluator& quick, std::size_t k) { relaxed_[k] = relaxed(quick, problem_, relaxed_settings(settings(example[k]))); });
}

/// Each lowers two small Programs: milliseconds, and the one part of bounding that may not be done in time.
void PlanBounds::price_microbatches(const std::vector<char>& known, const Tell& tell) {
  std::vector<std::map<PassKey, PassCosts>::value_type*> keys;
  std::vector<std::uint32_t> example;
  for (std::uint32_t i = 0; i < plans_.size(); ++i) {
    if (known[i] != 0 || relaxed_[relaxed_of_[i]].known || (is_wide(i) && options_.late(kWideShare))) continue;
    const auto [at, made] = costs_.emplace(pass_key(settings(i)), PassCosts{});
    if (!made) continue;
    keys.push_back(&*at);
    example.push_back(i);
  }
  std::atomic<std::size_t> done{0};
  parallel_for(options_.jobs, keys.size(), options_.ended(),
               [&](std::size_t k) {
                 keys[k]->second = pass_costs(problem_, settings(example[k]));
                 ++done;
               },
               [&] { tell("bounding", static_cast<double>(done), static_cast<double>(keys.size())); });
}

void PlanBounds::price(const std::vector<StrategySettings>& settings) {
  std::vector<std::map<PassKey, PassCosts>::value_type*> keys;
  std::vector<const StrategySettings*> example;
  for (const StrategySettings& s : settings) {
    const auto [at, made] = costs_.emplace(pass_key(s), PassCosts{});
    if (!made && at->second.known) continue;
    keys.push_back(&*at);
    example.push_back(&s);
  }
  parallel_for(options_.jobs, keys.size(), options_.ended(), [&](std::size_t k) { keys[k]->second = pass_costs(problem_, *example[k]); });
}

Bound PlanBounds::by_one_microbatch(const StrategySettings& settings) const {
  const auto at = costs_.find(pass_key(settings));
  return at == costs_.end() ? Bound{} : bound(at->second, settings, problem_.workload.training.global_batch);
}

}  // namespace rehearse
