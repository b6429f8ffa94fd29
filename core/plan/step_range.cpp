#include "core/plan/step_range.hpp"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/config/json_file.hpp"
#include "core/config/object_reader.hpp"

namespace rehearse {

namespace {

/// "tp + pp + dp", as the groups of the file are named.
std::string family(const StrategySettings& s) {
  std::string out;
  const bool sharded = s.fsdp.enabled || s.zero_stage == 3;
  for (const auto& [used, name] : {std::pair{s.tp > 1, "tp"}, {s.cp > 1, "cp"}, {s.pp > 1, "pp"}, {s.ep > 1, "ep"}, {sharded, "sharded"}, {s.dp > 1 && !sharded, "dp"}})
    if (used) out += (out.empty() ? "" : " + ") + std::string(name);
  return out.empty() ? "one GPU" : out;
}

}  // namespace

StepRanges StepRanges::load(const std::filesystem::path& file) {
  const nlohmann::json json = load_json(file.string());
  ObjectReader reader(json, file.string());
  const std::vector<std::string> schemas{"rehearse/prediction_errors/v1"};
  reader.choice("schema", schemas);
  reader.expect("what");
  StepRanges out;
  for (ObjectReader& g : reader.objects("groups")) {
    out.groups_.push_back({g.string("model"), g.string("generation"), g.string("strategy"), static_cast<int>(g.integer("rows", {1, 100'000'000})), g.number("p10", {1e-3, 1e3}), g.number("p90", {1e-3, 1e3})});
    if (out.groups_.back().p10 > out.groups_.back().p90) g.fail("p10", "p10 is above p90");
    g.finish();
  }
  reader.finish();
  if (std::none_of(out.groups_.begin(), out.groups_.end(), [](const Group& g) { return g.model.empty() && g.generation.empty() && g.strategy.empty(); })) reader.fail("groups", "no group of all rows (model, generation and strategy empty)");
  return out;
}

StepRange StepRanges::range(const Network& network, const std::string& generation, const StrategySettings& settings) const {
  const std::string model = !network.sequences ? "images" : network.routing() != nullptr ? "experts" : "dense", strategy = family(settings);
  for (const auto& [m, g, s] : {std::tuple{model, generation, strategy}, {model, generation, std::string()}, {model, std::string(), std::string()}, {std::string(), std::string(), std::string()}})
    for (const Group& group : groups_)
      if (std::tie(group.model, group.generation, group.strategy) == std::tie(m, g, s)) {
        std::string kind = m.empty() ? "all measured steps" : m == "experts" ? "models with experts" : m + " models";
        if (!g.empty()) kind += " on " + g;
        if (!s.empty()) kind += ", " + s;
        return {group.p10, group.p90, fmt::format("{}: 80 % of {} measured steps took {:.2f} to {:.2f} times their prediction", kind, group.rows, group.p10, group.p90)};
      }
  return {};
}

}  // namespace rehearse
