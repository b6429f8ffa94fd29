#include "core/strategy/roles/unit_plan.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/config/setting_key.hpp"
#include "core/config/settings/strategy.hpp"

namespace rehearse {

namespace {

const SettingKey<double> kMaxLive =
    declare_key("strategy.zero3.max_live_parameters", 1e9, "Whole parameters that live at a time.",
                {.detail = "Elements up to which more are gathered ahead; what the block at work needs is gathered in "
                           "any case. DeepSpeed's "
                           "stage3_max_live_parameters.",
                 .example = "1e9"});

}  // namespace

bool reshards(Reshard choice, const StrategySettings& settings) {
  // Between pipeline passes of many microbatches a gather each would cost more than the memory is worth.
  return choice == Reshard::automatic ? settings.pp == 1 : choice == Reshard::always;
}

UnitPlan::UnitPlan(const StepBodies& step, const RolePlan& plan, int stage)
    : settings_(plan.settings), step_(step), plan_(plan) {
  if (!step.shards_parameters()) return;
  if (settings_.fsdp.enabled) {
    drop_after_forward_ = reshards(settings_.fsdp.reshard_after_forward, settings_);
    drop_after_backward_ = drop_after_forward_ || reshards(settings_.fsdp.reshard_after_backward, settings_);
  }
  for (const ChunkPlacement& c : plan.chunks) {
    if (c.stage != stage) continue;
    for (int position = c.first_layer; position < c.last_layer; ++position) {
      const int b = nth(plan.block_at, position);
      const BlockTensors& block = nth(plan.blocks, b);
      std::vector<ParamRef> params;
      for (std::size_t p = 0; p < block.param.size(); ++p) {
        const int owner = block.shared_with[p];
        ParamRef ref{position, b, static_cast<int>(p)};
        if (owner >= 0) ref = step.owner_of(block.param[p], owner);
        if (step.state(ref).sharded) params.push_back(ref);
      }
      const bool layer = block.spec->input >= 0 && block.spec->output >= 0;
      add(c.chunk, position, params, settings_.fsdp.enabled && !layer);
    }
  }
  for (Unit& u : units_)
    for (const ParamRef& p : u.params) u.elements += step.elements(p);
}

/// Between the use of a parameter in a layer that runs again and its use in the layer's backward lie the parameters
/// after it, twice. Those of a recomputed layer stay whole in between where that is less than the reuse distance
/// (DeepSpeed, stage3_max_reuse_distance).
std::vector<ParamRef> UnitPlan::used_far_apart(const Unit& unit) const {
  if (settings_.fsdp.enabled || pass_.forward || !nth(plan_.blocks, unit.params.front().block).recompute_all) return {};
  std::vector<ParamRef> out;
  double between = 0;
  for (auto p = unit.params.rbegin(); p != unit.params.rend(); ++p) {
    if (between > settings_.zero3.reuse_distance) out.push_back(*p);
    between += 2 * step_.elements(*p);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

void UnitPlan::add(int chunk, int position, const std::vector<ParamRef>& params, bool root) {
  if (params.empty()) return;
  std::size_t at = units_.size();
  if (root) at = root_of_chunk_.try_emplace(chunk, at).first->second;
  if (at == units_.size()) units_.emplace_back();
  Unit& u = units_[at];
  u.root = root;
  unit_at_[position] = at;
  for (const ParamRef& p : params)
    if (std::find(u.params.begin(), u.params.end(), p) == u.params.end()) u.params.push_back(p);
}

int UnitPlan::unit_at(int position) const {
  const auto at = unit_at_.find(position);
  return at == unit_at_.end() ? -1 : static_cast<int>(at->second);
}

void UnitPlan::begin(UnitPass pass) { pass_ = std::move(pass); }

/// The last position whose unit may be whole while the k-th is at work.
int UnitPlan::reach(int k) const {
  const int last = static_cast<int>(pass_.positions.size()) - 1;
  if (settings_.fsdp.enabled) {
    if (!settings_.fsdp.limit_all_gathers) return last;
    return std::min(last, k + (pass_.forward ? settings_.fsdp.prefetch_forward : settings_.fsdp.prefetch_backward));
  }
  double ahead = 0, live = 0;
  const int here = unit_at(nth(pass_.positions, k));
  for (std::size_t u = 0; u < units_.size(); ++u)
    if (units_[u].held || static_cast<int>(u) == here) live += units_[u].elements;
  const double most = kMaxLive(settings_) - live;
  int i = k;
  while (i < last) {
    const int unit = unit_at(nth(pass_.positions, i + 1));
    const double more = unit < 0 ? 0 : nth(units_, unit).elements;
    ahead += more;
    // What is whole already needs no room.
    const bool fits = unit < 0 || nth(units_, unit).held || ahead <= most;
    if (ahead > settings_.zero3.prefetch_bucket || !fits) break;
    ++i;
  }
  return i;
}

std::vector<UnitPlan::Gather> UnitPlan::before(int k) {
  std::vector<Gather> out;
  if (!any()) return out;
  for (int i = k; i <= reach(k); ++i) {
    const int index = unit_at(nth(pass_.positions, i));
    if (index < 0 || nth(units_, index).held) continue;
    Unit& unit = nth(units_, index);
    unit.held = true;
    Gather g{index, {}, {}, k - 1};
    for (const ParamRef& p : unit.params)
      if (holders_[p]++ == 0) g.params.push_back(p);
    if (g.params.size() == unit.params.size()) g.again = used_far_apart(unit);
    if (!g.params.empty()) out.push_back(std::move(g));
  }
  return out;
}

bool UnitPlan::drops(const Unit& unit) const {
  if (pass_.forward) return drop_after_forward_ && !unit.root;
  return drop_after_backward_ || pass_.last;
}

std::vector<ParamRef> UnitPlan::dropped_after(int k) {
  std::vector<ParamRef> out;
  const int index = any() ? unit_at(nth(pass_.positions, k)) : -1;
  if (index < 0) return out;
  const auto same = [&](int position) { return unit_at(position) == index; };
  if (std::any_of(pass_.positions.begin() + k + 1, pass_.positions.end(), same)) return out;
  Unit& unit = nth(units_, index);
  if (!unit.held || !drops(unit)) return out;
  unit.held = false;
  for (const ParamRef& p : unit.params)
    if (--holders_[p] == 0) out.push_back(p);
  return out;
}

}  // namespace rehearse
