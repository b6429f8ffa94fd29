#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/config/scenario.hpp"
#include "core/config/settings/strategy.hpp"

namespace rehearse {
namespace {

// Products are doubles: exact far beyond any cluster, and no product of absurd sizes overflows.
struct Axis {
  const char* name;
  int size;
  bool always;  // Shown even when it is one.
};

std::vector<Axis> dense_axes(const StrategySettings& s) {
  return {{"dp", s.dp, true}, {"cp", s.cp, false},         {"tp", s.tp, true},
          {"pp", s.pp, true}, {"tile_h", s.tile_h, false}, {"tile_w", s.tile_w, false}};
}

double product(const std::vector<Axis>& axes) {
  double p = 1;
  for (const Axis& a : axes) p *= a.size;
  return p;
}

/// "dp(2) * tp(8) * pp(4) = 64"
std::string equation(const std::vector<Axis>& axes) {
  std::vector<std::string> terms;
  for (const Axis& a : axes)
    if (a.always || a.size != 1) terms.push_back(fmt::format("{}({})", a.name, a.size));
  return fmt::format("{} = {:.0f}", fmt::join(terms, " * "), product(axes));
}

[[noreturn]] void refuse(const Scenario& s, const std::string& key, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::usage, what, s.origin + ": /" + key, hint);
}

void check_data_parallel(const Scenario& s) {
  const StrategySettings& st = s.strategy;
  if (st.dp == 0) return;
  if (st.dp_replicate == 0) {
    if (st.dp % st.dp_shard != 0)
      refuse(s, "strategy/dp_shard", fmt::format("dp_shard({}) does not divide dp({})", st.dp_shard, st.dp),
             "dp = dp_replicate * dp_shard");
    return;
  }
  if (static_cast<std::int64_t>(st.dp_replicate) * st.dp_shard != st.dp)
    refuse(s, "strategy/dp",
           fmt::format("dp_replicate({}) * dp_shard({}) = {} != dp({})", st.dp_replicate, st.dp_shard,
                       static_cast<std::int64_t>(st.dp_replicate) * st.dp_shard, st.dp),
           "leave out dp or dp_replicate: it follows from the other two");
}

void check_batch(const Scenario& s) {
  const std::int64_t at_once = s.strategy.dp * s.strategy.microbatch;
  const std::int64_t batch = s.training.global_batch;
  if (at_once == 0 || batch % at_once == 0) return;
  const std::int64_t below = batch / at_once * at_once;
  refuse(s, "training/global_batch",
         fmt::format("global_batch({}) is not a multiple of dp({}) * microbatch({}) = {}", batch, s.strategy.dp,
                     s.strategy.microbatch, at_once),
         below > 0 ? fmt::format("{} and {} are", below, below + at_once) : fmt::format("the smallest is {}", at_once));
}

void check_experts(const Scenario& s) {
  const StrategySettings& st = s.strategy;
  const std::vector<Axis> experts{{"etp", st.etp, true}, {"ep", st.ep, true}};
  const std::vector<Axis> stage{{"dp", st.dp, true}, {"cp", st.cp, true}, {"tp", st.tp, true}};
  if (std::fmod(product(stage), product(experts)) == 0) return;
  refuse(s, "strategy/ep", fmt::format("{} does not divide {}", equation(experts), equation(stage)),
         "experts use the ranks of one stage: etp * ep * edp = dp * cp * tp");
}

void check_placement(const Scenario& s) {
  const StrategySettings& st = s.strategy;
  std::vector<Axis> axes = dense_axes(st);
  axes.push_back({"ep", st.ep, false});
  // Nearest where they have no place.
  const auto tiles = [](const Axis& a) { return std::string_view(a.name).starts_with("tile_"); };
  for (const Axis& a : axes)
    if (a.size > 1 && !tiles(a) && std::find(st.placement.begin(), st.placement.end(), a.name) == st.placement.end())
      refuse(s, "strategy/placement",
             fmt::format("axis {}({}) is not listed in placement '{}'", a.name, a.size, fmt::join(st.placement, ",")),
             "every axis larger than one has a place");
}

/// An axis of one rank may be left out, and then has a place all the same: the usual one where what is stated is in
/// the usual order, else the last.
void complete_placement(StrategySettings& s) {
  const auto stated = [&s](const std::string& axis) {
    return std::find(s.placement.begin(), s.placement.end(), axis) != s.placement.end();
  };
  const std::vector<std::string> usual = StrategySettings{}.placement;
  std::vector<std::string> in_order, missing;
  for (const std::string& axis : usual) (stated(axis) ? in_order : missing).push_back(axis);
  if (in_order == s.placement)
    s.placement = usual;
  else
    s.placement.insert(s.placement.end(), missing.begin(), missing.end());
}

}  // namespace

void check_scenario(const Scenario& scenario) {
  check_data_parallel(scenario);
  check_placement(scenario);
  if (scenario.strategy.dp == 0) return;
  check_batch(scenario);
  check_experts(scenario);
}

void resolve_axes(Scenario& scenario, int devices) {
  StrategySettings& st = scenario.strategy;
  if (st.dp == 0 && st.dp_replicate != 0) {
    const double dp = static_cast<double>(st.dp_replicate) * st.dp_shard;
    st.dp = static_cast<int>(std::min(dp, 1e9));
  }
  std::vector<Axis> others = dense_axes(st);
  others.erase(others.begin());
  const double rest = product(others);
  const bool fits = rest <= devices && std::fmod(devices, rest) == 0;
  if (st.dp == 0) {
    if (!fits)
      refuse(scenario, "strategy", fmt::format("{} does not divide {} GPUs", equation(others), devices),
             "dp is what the other axes leave; change one of them or the number of nodes");
    st.dp = static_cast<int>(devices / rest);
  }
  const std::vector<Axis> axes = dense_axes(st);
  if (product(axes) != devices)
    refuse(scenario, "strategy", fmt::format("{} != {} GPUs", equation(axes), devices),
           fits ? fmt::format("dp({:.0f}) would fit; leave strategy.dp out to let it follow from the others",
                              devices / rest)
                : "change an axis or the number of nodes");
  if (st.fsdp.enabled && st.dp_shard == 1 && st.dp_replicate == 0) st.dp_shard = st.dp;
  check_data_parallel(scenario);
  if (st.dp_replicate == 0) st.dp_replicate = st.dp / st.dp_shard;
  check_scenario(scenario);
  complete_placement(st);
}

}  // namespace rehearse
