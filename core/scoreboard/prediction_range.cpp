#include "core/scoreboard/prediction_range.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/scoreboard/scoreboard.hpp"

namespace rehearse {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kPredictionRangeSchema = "rehearse/prediction_errors/v1";

double rounded(double factor) { return std::round(factor * 1000) / 1000; }

std::string text_at(const json& group, const char* key, const std::string& file, const std::string& path) {
  if (!group.contains(key) || !group.at(key).is_string()) refuse_at(file + ": " + path + "/" + key, "wanted a text");
  return group.at(key).get<std::string>();
}

double factor_at(const json& group, const char* key, const std::string& file, const std::string& path) {
  if (!group.contains(key) || !group.at(key).is_number() || !(group.at(key).get<double>() > 0))
    refuse_at(file + ": " + path + "/" + key, "wanted a number above 0");
  return group.at(key).get<double>();
}

std::string words(const PredictionKind& kind) {
  std::string out = kind.model.empty()        ? "all measured steps"
                    : kind.model == "experts" ? "models with experts"
                                              : kind.model + " models";
  if (!kind.generation.empty()) out += " on " + kind.generation;
  if (!kind.strategy.empty()) out += ", " + kind.strategy;
  return out;
}

using Key = std::tuple<std::string, std::string, std::string>;
Key key_of(const PredictionKind& kind) { return {kind.model, kind.generation, kind.strategy}; }

/// From the kind itself to the widest.
std::vector<PredictionKind> wider(const PredictionKind& kind) {
  return {kind, {kind.model, kind.generation, ""}, {kind.model, "", ""}, {}};
}

}  // namespace

std::string strategy_family(const StrategySettings& s) {
  std::string out;
  const auto add = [&out](bool active, const char* name) {
    if (active) out += (out.empty() ? "" : " + ") + std::string(name);
  };
  const bool sharded = s.fsdp.enabled || s.zero_stage == 3;
  add(s.tp > 1, "tp");
  add(s.cp > 1, "cp");
  add(s.pp > 1, "pp");
  add(s.ep > 1, "ep");
  add(sharded, "sharded");
  add(s.dp > 1 && !sharded, "dp");
  return out.empty() ? "one GPU" : out;
}

PredictionKind kind_of(const Network& network, const StrategySettings& settings, const Cluster& cluster) {
  PredictionKind out;
  out.model = !network.sequences ? "images" : network.routing() != nullptr ? "experts" : "dense";
  out.generation = cluster.parts().front().gpu->generation;
  for (const Cluster::Part& part : cluster.parts())
    if (part.gpu->generation != out.generation) return {out.model, "", ""};
  out.strategy = strategy_family(settings);
  return out;
}

PredictionRanges PredictionRanges::load(const std::filesystem::path& path) {
  const std::string file = path.string();
  const json document = load_json(file);
  if (!document.is_object() || document.value("schema", json()) != kPredictionRangeSchema)
    refuse_at(file + ": /schema", fmt::format("wanted {}", kPredictionRangeSchema));
  if (!document.contains("groups") || !document.at("groups").is_array()) refuse_at(file + ": /groups", "wanted a list");
  PredictionRanges out;
  bool widest = false;
  for (const json& g : document.at("groups")) {
    const std::string at = fmt::format("/groups/{}", out.groups_.size());
    if (!g.is_object()) refuse_at(file + ": " + at, "wanted an object");
    Group group{{text_at(g, "model", file, at), text_at(g, "generation", file, at), text_at(g, "strategy", file, at)},
                static_cast<int>(factor_at(g, "rows", file, at)),
                factor_at(g, "p10", file, at),
                factor_at(g, "p90", file, at)};
    if (group.p10 > group.p90) refuse_at(file + ": " + at + "/p10", "p10 is above p90");
    widest = widest || key_of(group.kind) == Key{};
    out.groups_.push_back(std::move(group));
  }
  if (!widest) refuse_at(file + ": /groups", "no group of all rows (model, generation and strategy empty)");
  return out;
}

PredictionRanges PredictionRanges::of(const Scoreboard& board) {
  std::map<Key, std::vector<double>> factors;
  for (const ScoredRow& row : board.rows)
    if (row.counts())
      for (const PredictionKind& kind :
           wider({row.row.job->model_kind, row.row.job->generation, row.row.job->strategy}))
        factors[key_of(kind)].push_back(1 / (1 + row.error));
  PredictionRanges out;
  for (const auto& [key, f] : factors)
    if (static_cast<int>(f.size()) >= kFewestRows || key == Key{})
      out.groups_.push_back({{std::get<0>(key), std::get<1>(key), std::get<2>(key)},
                             static_cast<int>(f.size()),
                             rounded(quantile(f, 0.1)),
                             rounded(quantile(f, 0.9))});
  return out;
}

PredictionRange PredictionRanges::range(const PredictionKind& kind) const {
  for (const PredictionKind& k : wider(kind)) {
    const auto at =
        std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return key_of(g.kind) == key_of(k); });
    if (at != groups_.end()) return {at->p10, at->p90, at->rows, words(at->kind)};
  }
  return {};
}

std::string PredictionRanges::to_json() const {
  ordered_json out{{"schema", kPredictionRangeSchema},
                   {"what",
                    "Measured over predicted step time, 10th and 90th percentile, by model kind, GPU generation and "
                    "strategy; an empty text is any. Written by rehearse validate --measurements ... --write-ranges."},
                   {"groups", ordered_json::array()}};
  for (const Group& g : groups_) {
    out["groups"].push_back({{"model", g.kind.model},
                             {"generation", g.kind.generation},
                             {"strategy", g.kind.strategy},
                             {"rows", g.rows},
                             {"p10", g.p10},
                             {"p90", g.p90}});
  }
  return out.dump(1) + "\n";
}

}  // namespace rehearse
