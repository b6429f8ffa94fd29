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
#include "core/model/encoder.hpp"
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

/// The narrowest cell that `kind` lies in.
const RangeCell& cell_for(const std::vector<RangeCell>& cells, const PredictionKind& kind) {
  for (const PredictionKind& k : wider(kind)) {
    const auto at = std::find_if(cells.begin(), cells.end(), [&](const RangeCell& c) { return c.kind == k; });
    if (at != cells.end()) return *at;
  }
  throw Error(ErrorKind::check_failed, "ranges without the widest kind");
}

void set_factors(const ErrorOutlook& o, double& low, double& middle, double& high) {
  const double half = o.half_width();
  low = std::exp(o.bias - half), middle = std::exp(o.bias), high = std::exp(o.bias + half);
}

PredictionRange range_in(const std::vector<RangeCell>& cells, const PredictionKind& kind) {
  PredictionRange out;
  if (cells.empty()) return out;
  const RangeCell& from = cell_for(cells, kind);
  const RangeCell& counted = from.rows > 0 ? from : cell_for(cells, {kind.model, "", from.kind.framework});
  set_factors(from.outlook, out.p10, out.middle, out.p90);
  ErrorOutlook pair;  // The difference of two steps of one source.
  pair.rest_variance = 2 * from.outlook.rest_variance;
  pair.rest_uneven = from.outlook.rest_uneven;
  out.apart = std::exp(pair.half_width());
  out.rows = counted.rows;
  out.sources = counted.sources;
  out.rows_of = words_of(counted.kind);
  out.caution = caution_of(kind, from);
  return out;
}

std::vector<RangeCell> cells_in(const json& document, const char* key, const std::string& file) {
  const std::string where = fmt::format("{}: /{}", file, key);
  if (!document.contains(key) || !document.at(key).is_array()) refuse_at(where, "wanted a list");
  std::vector<RangeCell> out;
  for (const json& cell : document.at(key))
    out.push_back(cell_of(CellReader(cell, fmt::format("{}/{}", where, out.size()))));
  if (std::none_of(out.begin(), out.end(), [](const RangeCell& c) { return c.kind == PredictionKind{}; }))
    refuse_at(where, "none is of all rows (model, generation and framework empty)");
  return out;
}

std::string listed_cells(const std::vector<RangeCell>& cells) {
  std::string out;
  for (std::size_t i = 0; i < cells.size(); ++i)
    out += fmt::format("  {}{}\n", json_of(cells[i]).dump(), i + 1 < cells.size() ? "," : "");
  return out;
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
  out.model = !network.sequences             ? "images"
              : network.routing() != nullptr ? "experts"
              : encodes(network)             ? "encoders"
                                             : "dense";
  out.generation = cluster.parts().front().gpu->generation;
  for (const Cluster::Part& part : cluster.parts())
    if (part.gpu->generation != out.generation) return {out.model, "", framework};
  out.framework = framework;
  return out;
}

std::string words_of(const PredictionKind& kind) {
  std::string out = kind.model.empty()         ? "all models"
                    : kind.model == "experts"  ? "models with experts"
                    : kind.model == "images"   ? "image networks"
                    : kind.model == "encoders" ? "encoders"
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
  PredictionRanges out;
  out.cells_ = cells_in(document, "kinds", file);
  if (document.contains("peak_memory")) out.memory_cells_ = cells_in(document, "peak_memory", file);
  return out;
}

PredictionRanges PredictionRanges::of(const RangeFit& fit, const RangeFit* memory) {
  PredictionRanges out;
  out.cells_ = fit.cells();
  if (memory != nullptr) out.memory_cells_ = memory->cells();
  return out;
}

PredictionRanges PredictionRanges::with_own(std::vector<ErrorGroup> own) const {
  PredictionRanges out = *this;
  out.own_ = std::move(own);
  return out;
}

PredictionRange PredictionRanges::range(const PredictionKind& kind) const {
  PredictionRange out = range_in(cells_, kind);
  if (own_.empty() || cells_.empty()) return out;
  out.p10_before = out.p10, out.middle_before = out.middle, out.p90_before = out.p90;
  std::vector<OwnErrors> own;
  for (const ErrorGroup& g : own_) {
    own.push_back({g, cell_for(cells_, g.kind).outlook});
    out.own_rows += g.rows;
  }
  set_factors(outlook_with_own(cell_for(cells_, kind).outlook, kind, own), out.p10, out.middle, out.p90);
  return out;
}

PredictionRange PredictionRanges::memory_range(const PredictionKind& kind) const {
  return range_in(memory_cells_, kind);
}

std::vector<PredictionKind> PredictionRanges::measured_in(const std::string& framework) const {
  std::vector<PredictionKind> out;
  for (const RangeCell& c : cells_)
    if (c.kind.framework == framework && !c.kind.generation.empty() && c.rows > 0) out.push_back(c.kind);
  return out;
}

std::string PredictionRanges::to_json() const {
  const std::string what =
      "How far predicted step times (kinds) and peak memory are off, by kind of model, GPU generation and framework; "
      "an empty text is one that "
      "isn't known or was never measured. Of log(measured / predicted): the bias, and standard deviations of the bias "
      "itself (for it is known from few sources), of a source's effect, of what it adds on one generation of GPUs, "
      "of the rest (the median over sources), and of the logarithm of the rest's variance from source to source. "
      "Written by rehearse validate --measurements ... --write-ranges.";
  std::string out = fmt::format("{{\n \"schema\": {},\n \"what\": {},\n \"kinds\": [\n{} ]",
                                json(kPredictionRangeSchema).dump(), json(what).dump(), listed_cells(cells_));
  if (!memory_cells_.empty()) out += fmt::format(",\n \"peak_memory\": [\n{} ]", listed_cells(memory_cells_));
  return out + "\n}\n";
}

}  // namespace rehearse
