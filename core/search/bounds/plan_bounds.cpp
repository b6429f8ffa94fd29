#include "core/search/bounds/plan_bounds.hpp"

#include <atomic>
#include <unordered_map>

#include "core/config/settings/strategy.hpp"
#include "core/search/bounds/siblings.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

/// Bounds know what the members of settings divide and hide, and nothing of keys that other files declare.
bool is_bounded(const StrategySettings& settings) { return settings.declared == DeclaredSettings{}; }

}  // namespace

void PlanBounds::work_out(const std::vector<char>& known, const Tell& tell) {
  relax(tell);
  bounds_.resize(plans_.size());
  const auto bound_plans = [&](bool by_sibling) {
    in_turns(options_.jobs, options_.ended(), quick_, {0, plans_.size()}, "bounding", tell,
             [&](QuickEvaluator&, std::size_t position) {
               const auto i = static_cast<std::uint32_t>(position);
               const Relaxed& r = relaxed_[relaxed_of_[i]];
               if (known[i] != 0 || r.known != by_sibling) return;
               const StrategySettings s = settings(i);
               if (is_bounded(s)) bounds_[i] = by_sibling ? bound(r, traffic_, s) : by_one_microbatch(s);
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
    Space::Plan p = plans_[i];
    p.sharding = p.offload = 0;
    const auto [at, made] = index.emplace(plan_number(p), static_cast<std::uint32_t>(example.size()));
    if (made) example.push_back(i);
    relaxed_of_[i] = at->second;
  }
  relaxed_.resize(example.size());
  over(example.size(), 1, "bounding", tell, [&](QuickEvaluator& quick, std::size_t k) {
    relaxed_[k] = relaxed(quick, problem_, relaxed_settings(settings(example[k])));
  });
}

/// Lowers two small Programs for each way of dividing layers: milliseconds, and the one part of bounding that may not
/// be done in time.
void PlanBounds::price_microbatches(const std::vector<char>& known, const Tell& tell) {
  Wanted<PassKey, PassCosts> wanted;
  for (std::uint32_t i = 0; i < plans_.size(); ++i) {
    if (known[i] != 0 || relaxed_[relaxed_of_[i]].known || (is_wide(i) && options_.late(kClosedFormShare))) continue;
    const StrategySettings s = settings(i);
    wanted.add(costs_, pass_key(s), s);
  }
  price(wanted, tell);
}

void PlanBounds::price(Wanted<PassKey, PassCosts>& wanted, const Tell& tell) {
  const auto turns = wanted.runs([](const PassKey& a, const PassKey& b) { return a.division == b.division; });
  std::atomic<std::size_t> done{0};
  parallel_for(
      options_.jobs, turns.size(), options_.ended(),
      [&](std::size_t t) {
        std::vector<StrategySettings> places;
        for (std::size_t k = turns[t].begin; k < turns[t].end; ++k) places.push_back(wanted[k].example);
        const std::vector<PassCosts> costs = pass_costs(problem_, places);
        for (std::size_t k = 0; k < costs.size(); ++k) wanted[turns[t].begin + k].entry->second = costs[k];
        ++done;
      },
      [&] {
        if (tell) tell("bounding", static_cast<double>(done), static_cast<double>(turns.size()));
      });
}

Bound PlanBounds::by_sibling(QuickEvaluator& quick, const StrategySettings& settings) {
  if (!is_bounded(settings)) return {};
  const Relaxed r = relaxed(quick, problem_, relaxed_settings(settings));
  return r.known ? bound(r, traffic_, settings) : Bound{};
}

void PlanBounds::price_one_microbatch(const std::vector<StrategySettings>& settings) {
  Wanted<PassKey, PassCosts> wanted;
  for (const StrategySettings& s : settings) wanted.add(costs_, pass_key(s), s);
  price(wanted, {});
}

void PlanBounds::play_few_layers(const std::vector<StrategySettings>& settings) {
  Wanted<SteadyKey, SteadyStep> wanted;
  for (const StrategySettings& s : settings)
    if (has_steady_step(problem_, s)) wanted.add(steady_, steady_key(s), s);
  parallel_for(options_.jobs, wanted.size(), options_.ended(),
               [&](std::size_t k) { wanted[k].entry->second = steady_step(problem_, wanted[k].example); });
}

void PlanBounds::sharpen(const std::vector<std::uint32_t>& plans) {
  std::vector<StrategySettings> all;
  for (const std::uint32_t i : plans) all.push_back(settings(i));
  play_few_layers(all);
  for (std::size_t k = 0; k < plans.size(); ++k)
    if (is_bounded(all[k])) bounds_[plans[k]].step_time = max(bounds_[plans[k]].step_time, by_few_layers(all[k]));
}

Seconds PlanBounds::by_few_layers(const StrategySettings& s) const {
  const auto at = steady_.find(steady_key(s));
  if (at == steady_.end()) return {};
  HostTimes host;
  host.copy = traffic_.copy(at->second.moved, false);
  if (const auto pass = costs_.find(pass_key(s)); pass != costs_.end() && pass->second.known) {
    const PassCosts& c = pass->second;
    const double share =
        schedules().at(s.schedule).value->copies() * share_of_layers(problem_.workload.network, s.pp) / s.pp;
    host.update = traffic_.update_on_host(s, c.weights * share, c.gradients * share, c.optimizer * share);
  }
  return least_step(at->second, host, s, problem_.workload.training.global_batch);
}

std::size_t PlanBounds::proven_slow(const std::vector<std::uint32_t>& plans, double limit) {
  std::map<PassKey, std::uint32_t> examples;
  for (std::size_t k = 0; k < plans.size() && !options_.late() && !options_.stopped(); ++k)
    examples.try_emplace(pass_key(settings(plans[k])), plans[k]);
  std::vector<StrategySettings> wanted;
  for (const auto& [key, i] : examples) wanted.push_back(settings(i));
  price_one_microbatch(wanted);
  std::atomic<std::size_t> out{0};
  parallel_for(options_.jobs, plans.size(), {}, [&](std::size_t k) {
    const StrategySettings s = settings(plans[k]);
    const auto at = costs_.find(pass_key(s));
    if (at == costs_.end()) return;
    const Seconds least = proven_step(at->second, s, problem_.workload.training.global_batch);
    out += least.value() >= limit ? 1 : 0;
  });
  return out;
}

Bound PlanBounds::by_one_microbatch(const StrategySettings& settings) const {
  const auto at = costs_.find(pass_key(settings));
  return at == costs_.end() ? Bound{} : bound(at->second, settings, problem_.workload.training.global_batch);
}

std::vector<Bound> PlanBounds::of_settings(const std::vector<StrategySettings>& settings) {
  price_one_microbatch(settings);
  play_few_layers(settings);
  std::vector<Bound> out(settings.size());
  parallel_for(options_.jobs, settings.size(), options_.ended(), [&](std::size_t k) {
    if (!is_bounded(settings[k])) return;
    out[k] = by_one_microbatch(settings[k]);
    out[k].step_time = max(out[k].step_time, by_few_layers(settings[k]));
    quick_.with([&](QuickEvaluator& quick) {
      const Bound other = by_sibling(quick, settings[k]);
      out[k] = {max(out[k].step_time, other.step_time), max(out[k].memory, other.memory), out[k].proven};
    });
  });
  return out;
}

}  // namespace rehearse
