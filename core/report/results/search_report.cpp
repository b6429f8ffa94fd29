#include "core/report/results/search_report.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/config/settings/strategy.hpp"
#include "core/play/words.hpp"
#include "core/report/results/explanation.hpp"
#include "core/report/results/range_words.hpp"
#include "core/report/results/search_json.hpp"

namespace rehearse {

namespace {

/// "16.2-17.4": from the 10th to the 90th percentile, in seconds.
std::string likely(const SearchReport& report, const Found& f) {
  const PredictionRange& range = report.range;
  const double modelled = f.evaluation.time().value() / range.middle;
  return fmt::format("{:.3g}-{:.3g}", modelled * range.p10, modelled * range.p90);
}

/// "71.2-83.4": of what the plan needs, in GiB.
std::string likely_gib(const SearchReport& report, const Found& f) {
  const auto [low, high] = report.peak.ends(f.evaluation.needed, f.evaluation.allocated);
  return fmt::format("{:.1f}-{:.1f}", low.value() / kGib, high.value() / kGib);
}

/// How far the best plan's step and memory may be off, and what it is made of.
Facts range_facts(const SearchReport& report) {
  const Evaluation& best = report.result.best.front().evaluation;
  Facts facts{"How far off plans may be, by the first", {}};
  if (report.range.rows > 0) {
    const Seconds modelled = best.time() / report.range.middle;
    if (const std::string bias = bias_text(modelled, report.range); !bias.empty())
      facts.rows.emplace_back("bias", bias);
    facts.rows.emplace_back("likely range", range_text(modelled, report.range));
    if (report.range.own_rows > 0) facts.rows.emplace_back("before", before_text(modelled, report.range));
  }
  if (report.peak.rows > 0) {
    const auto [low, high] = report.peak.ends(best.needed, best.allocated);
    facts.rows.emplace_back("likely memory",
                            fmt::format("{} to {}, for 8 of 10 such peaks: by {}", to_string_iec(low, 3),
                                        to_string_iec(high, 3), report.peak.rests_on));
  }
  return facts;
}

/// Searched settings that are not the same in all plans, and those that are, as "key value".
struct Differences {
  std::vector<std::string> keys;
  std::vector<std::string> common;
};

std::string text_of(const SettingTexts& texts, const std::string& key) {
  for (const auto& [k, v] : texts)
    if (k == key) return v == "true" ? "yes" : v == "false" ? "no" : v;
  return "-";
}

/// What a reader knows from another column, or what says nothing here.
bool implied(const std::string& key) { return key == "dp_replicate" || key == "uneven_layers"; }

Differences differences(const std::vector<SettingTexts>& plans) {
  Differences out;
  const StrategySettings plain;
  const SettingTexts usual = setting_texts(plain);
  for (const std::string& key : searched_keys()) {
    if (implied(key)) continue;
    std::set<std::string> values;
    for (const SettingTexts& p : plans) values.insert(text_of(p, key));
    if (values.size() > 1) out.keys.push_back(key);
    if (values.size() == 1 && *values.begin() != "-" && *values.begin() != text_of(usual, key))
      out.common.push_back(key + " " + *values.begin());
  }
  return out;
}

std::string heading_of(const std::string& key) {
  if (key == "microbatch") return "mb";
  if (key == "virtual_stages") return "chunks";
  if (key == "sequence_parallel") return "sp";
  if (key == "zero_stage") return "zero";
  if (key == "fsdp.enabled") return "fsdp";
  if (key == "overlap.param_gather") return "late gather";
  return key;
}

std::vector<const Found*> shown(const SearchReport& report) {
  std::vector<const Found*> out;
  for (std::size_t i = 0; i < std::min(report.top, report.result.best.size()); ++i)
    out.push_back(&report.result.best[i]);
  return out;
}

Table plan_table(const std::string& title, const SearchReport& report, const std::vector<const Found*>& plans,
                 bool numbered) {
  std::vector<SettingTexts> texts;
  for (const Found* f : plans) texts.push_back(setting_texts(f->settings));
  const Differences different = differences(texts);
  const StepFigures& figures = report.figures;
  const auto played = [](const Found* plan) { return plan->evaluation.played.has_value(); };
  const bool mixed =
      numbered && std::any_of(plans.begin(), plans.end(), played) && !std::all_of(plans.begin(), plans.end(), played);
  Table table{title, {{numbered ? "#" : "", true}, {"step", true}}, {}};
  if (mixed) table.columns.push_back({"timed by"});
  const bool tokens = figures.tokens_per_step > 0;
  if (tokens) table.columns.push_back({"tok/s/GPU", true});
  if (!tokens && figures.samples_per_step > 0) table.columns.push_back({figures.samples + "/s", true});
  table.columns.push_back({"MFU %", true});
  table.columns.push_back({"GiB", true});
  if (report.peak.rows > 0) table.columns.push_back({"likely GiB", true});
  if (report.range.rows > 0) table.columns.push_back({"likely s", true});
  for (const std::string& key : different.keys)
    table.columns.push_back(
        {heading_of(key), key != "schedule" && key != "recompute" && key != "placement" && key != "offload"});
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Evaluation& e = plans[i]->evaluation;
    std::vector<std::string> row{numbered ? std::to_string(i + 1) : "", to_string(e.time())};
    if (mixed) row.emplace_back(played(plans[i]) ? "play" : "closed form");
    if (tokens) row.push_back(fmt::format("{:.1f}", figures.tokens_per_step / e.time().value() / figures.gpus));
    if (!tokens && figures.samples_per_step > 0)
      row.push_back(fmt::format("{:.1f}", figures.samples_per_step / e.time().value()));
    row.push_back(fmt::format("{:.1f}", 100 * (Flops{figures.model_flops} / (figures.peak * e.time()))));
    row.push_back(gib(e.needed));
    if (report.peak.rows > 0) row.push_back(likely_gib(report, *plans[i]));
    if (report.range.rows > 0) row.push_back(likely(report, *plans[i]));
    for (const std::string& key : different.keys) row.push_back(text_of(texts[i], key));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string common_text(const std::vector<const Found*>& plans) {
  std::vector<SettingTexts> texts;
  for (const Found* f : plans) texts.push_back(setting_texts(f->settings));
  const Differences d = differences(texts);
  return d.common.empty() || plans.size() < 2 ? std::string()
                                              : fmt::format("All of them: {}.", fmt::join(d.common, ", "));
}

/// "by their bounds none takes less than 2.1 s, 12 % less than the best".
std::string least_left_text(const SearchResult& s) {
  if (s.least_left <= Seconds{0}) return "not all of them have bounds";
  std::string out = fmt::format("by their bounds none takes less than {}", to_string(s.least_left));
  if (!s.best.empty())
    if (const double gap = 100 * (1 - s.least_left / s.best.front().evaluation.time()); gap > 0)
      out += fmt::format(", {:.1f} % less than the best found", gap);
  if (s.least_left <= s.at_peak) out += " (what the matrix products alone take at the peak of the GPUs)";
  return out;
}

std::string space_text(const SearchReport& r) {
  const SearchResult& s = r.result;
  std::string out = fmt::format(
      "{}{} combinations; {} legal plans, each in one order of its axes; {} may fit. {} were worked out, {} of them "
      "lowered in full; {} were left out by their bounds{}",
      s.whole ? "" : "More than ", with_commas(s.combinations), with_commas(static_cast<double>(s.legal)),
      with_commas(static_cast<double>(s.fit)), with_commas(static_cast<double>(s.evaluated)),
      with_commas(static_cast<double>(s.lowered)), with_commas(static_cast<double>(s.bounded)),
      s.bounded > 0
          ? fmt::format(" ({} by proof: their kernels alone take longer; the others by bounds with chosen margins)",
                        with_commas(static_cast<double>(s.proven)))
          : "");
  if (s.left > 0)
    out += fmt::format(
        "; for {} that may be among the best, {:.3g} % of those that may fit, there was no time "
        "(--seconds gives more): {}",
        with_commas(static_cast<double>(s.left)),
        100.0 * static_cast<double>(s.left) / static_cast<double>(std::max<std::size_t>(1, s.fit)), least_left_text(s));
  if (s.played > 0) out += fmt::format("; {} played on {}", s.played, r.backend);
  if (s.unplayed > 0)
    out += fmt::format(
        " (--simulate plays more: of {} others the closed form is below the best played step, so one may be faster)",
        with_commas(static_cast<double>(s.unplayed)));
  return out + ".";
}

/// "Plans 1 to 8 are tied: ..."; empty where the first stands alone.
std::string ties_text(const SearchReport& report, const std::vector<const Found*>& plans) {
  if (report.range.rows == 0 || report.objective == Objective::memory) return {};
  std::size_t last = 0;
  while (last + 1 < plans.size() && tied(report, *plans[last + 1])) ++last;
  if (last == 0) return {};
  return fmt::format(
      "Plans 1 to {} are tied: predictions of two plans of one job are off by different amounts, and tell them apart "
      "where they differ by more than {:.2g} %. Try them, or give steps that you measured (--observed).",
      last + 1, 100 * (report.range.apart - 1));
}

Facts trades(const std::vector<const Found*>& plans) {
  Facts facts{"What each trades against the first", {}};
  for (std::size_t i = 1; i < plans.size(); ++i)
    facts.rows.emplace_back(fmt::format("{}", i + 1), trade_text(*plans[i], *plans[0]));
  return facts;
}

/// "Front ..., 8 of 9: ...".
std::string front_title(std::size_t shown, std::size_t all) {
  const std::string cut =
      shown < all ? fmt::format(", {} of {} plans (the others save less than a hundredth of the capacity)", shown, all)
                  : "";
  return fmt::format("Front{}: whoever wants less memory pays this much time (closed form where not played)", cut);
}

std::vector<const Found*> front_shown(const SearchReport& r) {
  std::vector<const Found*> out;
  for (const Found& f : r.result.front)  // Steps of less than a hundredth of the capacity say little.
    if (out.empty() || out.back()->evaluation.needed - f.evaluation.needed > 0.01 * f.evaluation.capacity)
      out.push_back(&f);
  return out;
}

std::string command(const SearchReport& r, const Found& winner) {
  std::string out = "rehearse simulate " + (r.file.empty() ? r.scenario : r.file);
  SettingTexts own = r.result.own ? setting_texts(r.result.own->settings) : SettingTexts{};
  for (const auto& [key, value] : setting_texts(winner.settings))
    if (std::find(own.begin(), own.end(), std::make_pair(key, value)) == own.end())
      out += fmt::format(" --set strategy.{}={}", key, value);
  return out;
}

void add_plans(const SearchReport& report, Document& out) {
  const std::vector<const Found*> plans = shown(report);
  out.blocks.emplace_back(plan_table("", report, plans, true));
  if (const std::string common = common_text(plans); !common.empty()) out.blocks.emplace_back(Paragraph{common});
  if (const std::string ties = ties_text(report, plans); !ties.empty()) out.blocks.emplace_back(Paragraph{ties});
  if (plans.size() > 1) out.blocks.emplace_back(trades(plans));
  if (const auto front = front_shown(report); front.size() > 1) {
    out.blocks.emplace_back(plan_table(front_title(front.size(), report.result.front.size()), report, front, false));
    if (const std::string common = common_text(front); !common.empty()) out.blocks.emplace_back(Paragraph{common});
  }
  out.blocks.emplace_back(Paragraph{"Why: " + why_text(report.result, report.objective)});
  if (report.range.rows > 0 || report.peak.rows > 0) out.blocks.emplace_back(range_facts(report));
  out.blocks.emplace_back(Facts{"", {{"play it", command(report, *plans.front())}}});
}

Table records(const SearchReport& report) {
  Table table{"", {}, {}};
  for (const char* title : {"rank", "label", "step_time_s", "closed_form_s", "simulated_step_time_s", "memory_bytes",
                            "memory_bytes_p10", "memory_bytes_p90", "memory_capacity_bytes", "front"})
    table.columns.push_back({title, true});
  for (const std::string& key : searched_keys()) table.columns.push_back({key, false});
  const std::vector<const Found*> all = candidates(report.result);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Evaluation& e = all[i]->evaluation;
    const SettingTexts texts = setting_texts(all[i]->settings);
    const PeakRange::Ends likely = report.peak.ends(e.needed, e.allocated);
    std::vector<std::string> row{std::to_string(i + 1),
                                 plan_label(all[i]->settings),
                                 fmt::format("{}", e.time().value()),
                                 fmt::format("{}", e.step_time.value()),
                                 e.played ? fmt::format("{}", e.played->value()) : "",
                                 fmt::format("{}", std::llround(e.needed.value())),
                                 report.peak.rows > 0 ? fmt::format("{}", std::llround(likely.low.value())) : "",
                                 report.peak.rows > 0 ? fmt::format("{}", std::llround(likely.high.value())) : "",
                                 fmt::format("{}", std::llround(e.capacity.value())),
                                 on_front(report.result, *all[i]) ? "true" : "false"};
    for (const std::string& key : searched_keys()) {
      const auto at = std::find_if(texts.begin(), texts.end(), [&](const auto& t) { return t.first == key; });
      row.push_back(at == texts.end() ? "" : at->second);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

Evaluation with_bias(Evaluation e, const PredictionRange& range) {
  e.step_time = e.step_time * range.middle;
  e.breakdown *= range.middle;
  if (e.played) e.played = *e.played * range.middle;
  if (e.played_breakdown) *e.played_breakdown *= range.middle;
  return e;
}

bool tied(const SearchReport& report, const Found& plan) {
  if (report.range.rows == 0 || report.result.best.empty() || !plan.evaluation.fits) return false;
  return plan.evaluation.time() <= report.result.best.front().evaluation.time() * report.range.apart;
}

Found with_bias(Found plan, const PredictionRange& range) {
  plan.evaluation = with_bias(std::move(plan.evaluation), range);
  return plan;
}

SearchResult with_bias(SearchResult result, const PredictionRange& range) {
  for (std::vector<Found>* plans : {&result.best, &result.front})
    for (Found& plan : *plans) plan = with_bias(std::move(plan), range);
  if (result.own) result.own = with_bias(std::move(*result.own), range);
  if (result.left > 0) result.least_left = max(result.least_left * range.middle, result.at_peak);
  return result;
}

Document search_document(const SearchReport& modelled) {
  SearchReport report = modelled;
  report.result = with_bias(std::move(report.result), report.range);
  Document out;
  out.blocks.emplace_back(Heading{report.subject});
  out.blocks.emplace_back(Paragraph{space_text(report)});
  if (report.result.interrupted)
    out.blocks.emplace_back(Paragraph{"Interrupted: the best of what was evaluated until then."});
  if (report.result.defects > 0)
    out.blocks.emplace_back(
        Paragraph{fmt::format("{} plans met a defect of this program and were left out; please report the first: {}",
                              report.result.defects, report.result.first_defect)});
  if (report.result.best.empty())
    out.blocks.emplace_back(Paragraph{report.result.interrupted ? "No plan that fits was found before."
                                      : report.result.left > 0  ? "No plan that fits was found in time."
                                                                : "No plan fits."});
  else
    add_plans(report, out);
  out.records = records(report);
  out.json = search_json(modelled);
  return out;
}

}  // namespace rehearse
