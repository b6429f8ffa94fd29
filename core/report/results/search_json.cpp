#include "core/report/results/search_json.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/config/json_file.hpp"
#include "core/play/words.hpp"
#include "core/report/results/explanation.hpp"
#include "core/report/results/range_words.hpp"
#include "core/search/settings_json.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;

void add_figures(const StepFigures& f, Seconds step, ordered_json& out) {
  if (f.tokens_per_step > 0) out["tokens_per_s_per_gpu"] = f.tokens_per_step / step.value() / f.gpus;
  out["mfu"] = Flops{f.model_flops} / (f.peak * step);
  if (f.tokens_per_step <= 0) return;
  if (f.power > Watts{0}) out["energy_per_token_J"] = (f.power * step).value() / f.tokens_per_step;
  if (f.price_per_gpu_hour > Dollars{0})
    out["cost_per_million_tokens_usd"] =
        f.price_per_gpu_hour.value() * f.gpus * step.value() / 3600 / f.tokens_per_step * 1e6;
}

/// Times are as answered, but for those of the closed form and of the back end, which are as modelled.
ordered_json found_json(const SearchReport& report, const Found& found) {
  const Evaluation& e = found.evaluation;
  const Found shown = with_bias(found, report.range);
  auto out = ordered_json::object();
  out["strategy"] = settings_json(found.settings);
  out["label"] = plan_label(found.settings);
  out["fits"] = e.fits;
  if (e.fits) {
    out["step_time_s"] = shown.evaluation.time().value();
    out["closed_form_step_time_s"] = e.step_time.value();
    if (report.range.rows > 0) {
      add_range_json(e.time(), report.range, out);
      out["tied"] = tied(report, found);
    }
    add_figures(report.figures, shown.evaluation.time(), out);
  }
  // Whole bytes, so that what is read back from here has the same range.
  const Bytes needed{std::round(e.needed.value())}, allocated{std::round(e.allocated.value())};
  out["memory_bytes"] = std::llround(needed.value());
  if (report.peak.rows > 0) {
    const auto [low, high] = report.peak.ends(needed, allocated);
    out["memory_bytes_p10"] = std::llround(low.value());
    out["memory_bytes_p90"] = std::llround(high.value());
  }
  out["memory_allocated_bytes"] = std::llround(allocated.value());
  out["memory_capacity_bytes"] = std::llround(e.capacity.value());
  if (!e.fits) return out;
  out["breakdown"] = breakdown_json(shown.evaluation.parts());
  if (e.played) out["simulated_step_time_s"] = e.played->value();
  if (!report.result.best.empty())
    out["trades"] = trade_text(shown, with_bias(report.result.best.front(), report.range));
  return out;
}

ordered_json space_json(const SearchResult& r) {
  return {{"combinations", r.combinations},
          {"whole", r.whole},
          {"legal", r.legal},
          {"fit", r.fit},
          {"evaluated", r.evaluated},
          {"lowered", r.lowered},
          {"bounded", r.bounded},
          {"proven", r.proven},
          {"left", r.left},
          {"least_left_s", r.least_left.value()},
          {"at_peak_s", r.at_peak.value()},
          {"simulated", r.played},
          {"unplayed", r.unplayed},
          {"defects", r.defects}};
}

}  // namespace

std::vector<const Found*> candidates(const SearchResult& result) {
  std::vector<const Found*> out;
  for (const Found& f : result.best) out.push_back(&f);
  for (const Found& f : result.front)
    if (std::none_of(result.best.begin(), result.best.end(), [&](const Found& b) { return b.order == f.order; }))
      out.push_back(&f);
  return out;
}

bool on_front(const SearchResult& result, const Found& found) {
  return std::any_of(result.front.begin(), result.front.end(), [&](const Found& f) { return f.order == found.order; });
}

std::string search_json(const SearchReport& report) {
  auto out = ordered_json::object();
  out["schema"] = kSearchSchema;
  out["version"] = report.version;
  out["scenario"] = report.scenario;
  out["file"] = report.file;
  out["objective"] = nth(objective_names(), report.objective);
  out["gpus"] = report.figures.gpus;
  out["backend"] = report.backend.empty() ? ordered_json() : ordered_json(report.backend);
  out["interrupted"] = report.result.interrupted;
  if (report.shard.count > 1) out["shard"] = {{"index", report.shard.index}, {"count", report.shard.count}};
  out["fixed"] = report.fixed;
  if (report.most_memory > Bytes{0}) out["max_memory_bytes"] = report.most_memory.value();
  if (report.figures.price_per_gpu_hour > Dollars{0})
    out["price_per_gpu_hour_usd"] = report.figures.price_per_gpu_hour.value();
  out["top"] = report.top;
  if (report.peak.rows > 0)
    out["memory_range"] = {
        {"rows", report.peak.rows}, {"sources", report.peak.sources}, {"rests_on", report.peak.rests_on}};
  out["space"] = space_json(report.result);
  out["candidates"] = ordered_json::array();
  out["pareto"] = ordered_json::array();
  const std::vector<const Found*> all = candidates(report.result);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ordered_json entry{{"rank", i + 1}};
    entry.update(found_json(report, *all[i]));
    entry["order"] = all[i]->order;
    out["candidates"].push_back(std::move(entry));
    if (on_front(report.result, *all[i])) out["pareto"].push_back(i);
  }
  out["own"] = report.result.own ? found_json(report, *report.result.own) : ordered_json();
  out["why"] = why_text(with_bias(report.result, report.range), report.objective);
  out["subject"] = report.subject;
  out["resolved"] = ordered_json::parse(report.scenario_json);
  return out.dump(2) + "\n";
}

}  // namespace rehearse
