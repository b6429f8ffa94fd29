#include "core/scoreboard/prediction_range.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/scoreboard/ranges/own_source.hpp"

namespace rehearse {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kPredictionRangeSchema = "rehearse/prediction_errors/v3";

/// A member of ErrorOutlook as the file has it: variances as standard deviations.
struct Figure {
  const char* key;
  double ErrorOutlook::*member;
  bool variance;
};
constexpr std::array<Figure, 7> kFigures{{{"bias", &ErrorOutlook::bias, false},
                                          {"bias_sd", &ErrorOutlook::bias_variance, true},
                                          {"source_sd", &ErrorOutlook::source_variance, true},
                                          {"machine_sd", &ErrorOutlook::machine_variance, true},
                                          {"rest_sd", &ErrorOutlook::rest_variance, true},
                                          {"rest_log_sd", &ErrorOutlook::rest_uneven, true},
                                          {"degrees", &ErrorOutlook::degrees, false}}};

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

class CellReader {
 public:
  CellReader(const json& cell, std::string where) : cell_(cell), where_(std::move(where)) {
    if (!cell_.is_object()) refuse_at(where_, "wanted an object");
  }

  [[nodiscard]] std::string text(const char* key) const {
    const auto at = cell_.find(key);
    if (at == cell_.end() || !at->is_string()) refuse_at(where_ + "/" + key, "wanted a text");
    return at->get<std::string>();
  }

  [[nodiscard]] double number(const char* key, double least) const {
    const auto at = cell_.find(key);
    if (at == cell_.end() || !at->is_number() || !(at->get<double>() >= least) || !(at->get<double>() <= kMost))
      refuse_at(where_ + "/" + key, fmt::format("wanted a number from {} to {}", least, kMost));
    return at->get<double>();
  }

 private:
  static constexpr double kMost = 1e9;
  const json& cell_;
  std::string where_;
};

RangeCell cell_of(const CellReader& from) {
  RangeCell out;
  out.kind = {from.text("model"), from.text("generation"), from.text("framework")};
  out.sources = static_cast<int>(from.number("sources", 0));
  out.rows = static_cast<int>(from.number("rows", 0));
  for (const Figure& f : kFigures) {
    const double value = from.number(f.key, f.member == &ErrorOutlook::bias ? -10 : 0);
    out.outlook.*f.member = f.variance ? value * value : value;
  }
  return out;
}

ordered_json json_of(const RangeCell& cell) {
  ordered_json out{{"model", cell.kind.model},
                   {"generation", cell.kind.generation},
                   {"framework", cell.kind.framework},
                   {"sources", cell.sources},
                   {"rows", cell.rows}};
  for (const Figure& f : kFigures) {
    const double value = cell.outlook.*f.member;
    out[f.key] = rounded(f.variance ? std::sqrt(value) : value);
  }
  return out;
}

/// From the kind itself to the widest.
std::array<PredictionKind, 5> wider(const PredictionKind& kind) {
  return {{{kind.model, kind.generation, kind.framework},
           {kind.model, "", kind.framework},
           {kind.model, kind.generation, ""},
           {kind.model, "", ""},
           {"", "", ""}}};
}

/// What the range of `kind` had to do without; `cell` is what it comes from.
std::string caution_of(const PredictionKind& kind, const RangeCell& cell) {
  std::vector<std::string> out;
  if (kind.framework.empty())
    out.emplace_back("no framework is stated");
  else if (cell.kind.framework.empty())
    out.push_back(fmt::format("no source measured {}", kind.framework));
  if (!kind.generation.empty() && (cell.kind.generation.empty() || cell.rows == 0))
    out.push_back(fmt::format("no source measured such models on {}", kind.generation));
  return fmt::format("{}", fmt::join(out, ", "));
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

PredictionKind kind_of(const Network& network, const Cluster& cluster, const std::string& framework) {
  PredictionKind out;
  out.model = !network.sequences ? "images" : network.routing() != nullptr ? "experts" : "dense";
  out.generation = cluster.parts().front().gpu->generation;
  for (const Cluster::Part& part : cluster.parts())
    if (part.gpu->generation != out.generation) return {out.model, "", framework};
  out.framework = framework;
  return out;
}

std::string words_of(const PredictionKind& kind) {
  std::string out = kind.model.empty()        ? "all models"
                    : kind.model == "experts" ? "models with experts"
                    : kind.model == "images"  ? "image networks"
                                              : kind.model + " models";
  if (!kind.generation.empty()) out += " on " + kind.generation;
  if (!kind.framework.empty()) out += " in " + kind.framework;
  return out;
}

PredictionRanges PredictionRanges::load(const std::filesystem::path& path) {
  const std::string file = path.string();
  const json document = load_json(file);
  if (!document.is_object() || document.value("schema", json()) != kPredictionRangeSchema)
    refuse_at(file + ": /schema", fmt::format("wanted {}", kPredictionRangeSchema));
  if (!document.contains("kinds") || !document.at("kinds").is_array()) refuse_at(file + ": /kinds", "wanted a list");
  PredictionRanges out;
  for (const json& cell : document.at("kinds"))
    out.cells_.push_back(cell_of(CellReader(cell, fmt::format("{}: /kinds/{}", file, out.cells_.size()))));
  if (std::none_of(out.cells_.begin(), out.cells_.end(), [](const RangeCell& c) { return c.kind == PredictionKind{}; }))
    refuse_at(file + ": /kinds", "none is of all rows (model, generation and framework empty)");
  return out;
}

PredictionRanges PredictionRanges::of(const RangeFit& fit) {
  PredictionRanges out;
  out.cells_ = fit.cells();
  return out;
}

PredictionRanges PredictionRanges::with_own(std::vector<ErrorGroup> own) const {
  PredictionRanges out = *this;
  out.own_ = std::move(own);
  return out;
}

const RangeCell& PredictionRanges::cell(const PredictionKind& kind) const {
  for (const PredictionKind& k : wider(kind)) {
    const auto at = std::find_if(cells_.begin(), cells_.end(), [&](const RangeCell& c) { return c.kind == k; });
    if (at != cells_.end()) return *at;
  }
  throw Error(ErrorKind::check_failed, "ranges without the widest kind");
}

PredictionRange PredictionRanges::range(const PredictionKind& kind) const {
  PredictionRange out;
  if (cells_.empty()) return out;
  const RangeCell& from = cell(kind);
  const RangeCell& counted = from.rows > 0 ? from : cell({kind.model, "", from.kind.framework});
  const auto factors = [](const ErrorOutlook& o, double& low, double& middle, double& high) {
    const double half = o.half_width();
    low = std::exp(o.bias - half), middle = std::exp(o.bias), high = std::exp(o.bias + half);
  };
  factors(from.outlook, out.p10, out.middle, out.p90);
  ErrorOutlook pair;  // The difference of two steps of one source.
  pair.rest_variance = 2 * from.outlook.rest_variance;
  pair.rest_uneven = from.outlook.rest_uneven;
  out.apart = std::exp(pair.half_width());
  out.rows = counted.rows;
  out.sources = counted.sources;
  out.rows_of = words_of(counted.kind);
  out.caution = caution_of(kind, from);
  if (own_.empty()) return out;
  out.p10_before = out.p10, out.middle_before = out.middle, out.p90_before = out.p90;
  std::vector<OwnErrors> own;
  for (const ErrorGroup& g : own_) {
    own.push_back({g, cell(g.kind).outlook});
    out.own_rows += g.rows;
  }
  factors(outlook_with_own(from.outlook, kind, own), out.p10, out.middle, out.p90);
  return out;
}

std::string PredictionRanges::to_json() const {
  const std::string what =
      "How far predicted step times are off, by kind of model, GPU generation and framework; an empty text is one that "
      "isn't known or was never measured. Of log(measured / predicted): the bias, and standard deviations of the bias "
      "itself (for it is known from few sources), of a source's effect, of what it adds on one generation of GPUs, "
      "of the rest (the median over sources), and of the logarithm of the rest's variance from source to source. "
      "Written by rehearse validate --measurements ... --write-ranges.";
  std::string out = fmt::format("{{\n \"schema\": {},\n \"what\": {},\n \"kinds\": [\n",
                                json(kPredictionRangeSchema).dump(), json(what).dump());
  for (std::size_t i = 0; i < cells_.size(); ++i)
    out += fmt::format("  {}{}\n", json_of(cells_[i]).dump(), i + 1 < cells_.size() ? "," : "");
  return out + " ]\n}\n";
}

}  // namespace rehearse
