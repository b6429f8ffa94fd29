#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/config/settings/strategy.hpp"
#include "core/search/settings_json.hpp"
#include "core/search/space.hpp"

namespace rehearse {

namespace {

std::vector<std::string> large_axes(const StrategySettings& s) {
  std::vector<std::string> out;
  for (const std::string& axis : s.placement) {
    const int size = axis == "dp"       ? s.dp
                     : axis == "tp"     ? s.tp
                     : axis == "pp"     ? s.pp
                     : axis == "cp"     ? s.cp
                     : axis == "ep"     ? s.ep
                     : axis == "tile_h" ? s.tile_h
                                        : s.tile_w;
    if (size > 1) out.push_back(axis);
  }
  return out;
}

/// Whether the axes lie in the order that scenarios have by default.
bool usual_order(const StrategySettings& s) {
  StrategySettings usual = s;
  usual.placement = StrategySettings{}.placement;
  usual.placement.insert(usual.placement.end(), {"tile_h", "tile_w"});
  return large_axes(s) == large_axes(usual);
}

using Declared = Registry<DeclaredKey>::Entry;

/// Visits the searched keys that other files declare, with their names inside `strategy`.
void for_searched(const std::function<void(const Declared&, const std::string&)>& visit) {
  for (const Declared& entry : declared_keys().entries())
    if (entry.name.starts_with(kSearchedGroup) && !entry.value.options.searched.empty())
      visit(entry, entry.name.substr(kSearchedGroup.size()));
}

const SettingValue& value_of(const Declared& entry, const StrategySettings& s) {
  const SettingValue* own = s.declared.find(entry.name);
  return own == nullptr ? entry.value.fallback : *own;
}

/// "eager" where that is true, else "eager=8".
std::string label_of(const std::string& key, const SettingValue& value) {
  const std::string name = key.substr(kSearchedGroup.size());
  return value == SettingValue(true) ? name : name + "=" + text_of(value);
}

}  // namespace

std::vector<std::string> searched_keys() {
  std::vector<std::string> out{"dp",
                               "tp",
                               "pp",
                               "cp",
                               "ep",
                               "etp",
                               "tile_h",
                               "tile_w",
                               "dp_shard",
                               "dp_replicate",
                               "microbatch",
                               "schedule",
                               "virtual_stages",
                               "uneven_layers",
                               "sequence_parallel",
                               "recompute",
                               "zero_stage",
                               "fsdp.enabled",
                               "overlap.param_gather",
                               "offload",
                               "context",
                               "placement"};
  for_searched([&](const Declared&, const std::string& key) { out.push_back(key); });
  return out;
}

SettingTexts setting_texts(const StrategySettings& s) {
  SettingTexts out;
  const auto add = [&](bool means, const char* key, auto value) {
    if (means) out.emplace_back(key, fmt::format("{}", value));
  };
  add(true, "dp", s.dp);
  add(true, "tp", s.tp);
  add(true, "pp", s.pp);
  add(true, "cp", s.cp);
  add(s.ep > 1 || s.etp > 1, "ep", s.ep);
  add(s.ep > 1 || s.etp > 1, "etp", s.etp);
  add(s.tile_h * s.tile_w > 1, "tile_h", s.tile_h);
  add(s.tile_h * s.tile_w > 1, "tile_w", s.tile_w);
  add(true, "dp_shard", s.dp_shard);
  add(true, "dp_replicate", s.dp_replicate);
  add(true, "microbatch", s.microbatch);
  add(true, "schedule", s.schedule);
  add(true, "virtual_stages", s.virtual_stages);
  add(true, "uneven_layers", s.uneven_layers);
  add(true, "sequence_parallel", s.sequence_parallel);
  add(true, "recompute", name_of(s.recompute));
  add(true, "zero_stage", s.zero_stage);
  add(true, "fsdp.enabled", s.fsdp.enabled);
  add(true, "overlap.param_gather", s.overlap.param_gather);
  add(true, "offload", name_of(s.offload));
  add(s.cp > 1, "context", name_of(s.context));
  if (const auto large = large_axes(s); large.size() > 1) {
    std::vector<std::string> order = large;
    if (s.ep > 1 && std::find(order.begin(), order.end(), "ep") == order.end()) order.emplace_back("ep");
    out.emplace_back("placement", fmt::format("{}", fmt::join(order, ",")));
  }
  for_searched(
      [&](const Declared& entry, const std::string& key) { add(true, key.c_str(), text_of(value_of(entry, s))); });
  return out;
}

nlohmann::ordered_json settings_json(const StrategySettings& s) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const auto& [key, text] : setting_texts(s)) {
    nlohmann::ordered_json value = nlohmann::ordered_json::parse(text, nullptr, false);
    out[key] = value.is_discarded() ? nlohmann::ordered_json(text) : std::move(value);
  }
  return out;
}

std::string plan_label(const StrategySettings& s) {
  std::string out = fmt::format("tp={} pp={} dp={}", s.tp, s.pp, s.dp);
  const auto add = [&](bool means, const std::string& text) {
    if (means) out += " " + text;
  };
  add(s.cp > 1, fmt::format("cp={} {}", s.cp, name_of(s.context)));
  add(s.ep > 1, fmt::format("ep={}", s.ep));
  add(s.etp > 1, fmt::format("etp={}", s.etp));
  add(s.tile_h * s.tile_w > 1, fmt::format("tiles={}x{}", s.tile_h, s.tile_w));
  add(true, fmt::format("mb={}", s.microbatch));
  add(s.pp > 1, s.schedule);
  add(s.virtual_stages > 1, fmt::format("v={}", s.virtual_stages));
  add(s.uneven_layers, "uneven");
  add(s.sequence_parallel && s.tp > 1, "sp");
  add(s.zero_stage > 0, fmt::format("zero{}", s.zero_stage));
  add(s.zero_stage > 0 && s.overlap.param_gather, "late-gather");
  add(s.fsdp.enabled && s.dp_replicate == 1, "fsdp");
  add(s.fsdp.enabled && s.dp_replicate > 1, fmt::format("hsdp={}x{}", s.dp_replicate, s.dp_shard));
  add(s.offload != Offload::none, fmt::format("offload={}", name_of(s.offload)));
  add(true, fmt::format("recompute={}", name_of(s.recompute)));
  for (const auto& entry : declared_keys().entries())
    if (const SettingValue* own = s.declared.find(entry.name)) add(true, label_of(entry.name, *own));
  add(!usual_order(s), fmt::format("order={}", fmt::join(large_axes(s), ",")));
  return out;
}

}  // namespace rehearse
