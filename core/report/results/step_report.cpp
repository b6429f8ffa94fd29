#include "core/report/results/step_report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/play/words.hpp"
#include "core/price/calibration/group_words.hpp"
#include "core/report/results/memory_report.hpp"
#include "core/report/results/range_words.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;

std::string duration(Seconds t) {
  if (t < Seconds{86400}) return to_string(t);
  return fmt::format("{:.1f} days", t.value() / 86400);
}

std::string parameters_text(double n) {
  if (n >= 1e12) return fmt::format("{:.3g} T", n / 1e12);
  if (n >= 1e9) return fmt::format("{:.4g} B", n / 1e9);
  return fmt::format("{:.4g} M", n / 1e6);
}

Heading heading(const PlanSummary& p) {
  return {fmt::format("{} ({} parameters) on {} GPUs, {}: {}", p.model, parameters_text(p.parameters),
                      with_commas(p.gpus), p.cluster, p.strategy)};
}

/// The step time, with what it is made of and how far it may be off.
Facts time_facts(const StepReport& r) {
  Facts facts{"", {{"step time", to_string(r.metrics.step_time)}}};
  if (r.range.rows == 0) return facts;
  const Seconds modelled = r.metrics.step_time / r.range.middle;
  if (const std::string bias = bias_text(modelled, r.range); !bias.empty()) facts.rows.emplace_back("bias", bias);
  facts.rows.emplace_back("likely range", range_text(modelled, r.range));
  if (r.range.own_rows > 0) facts.rows.emplace_back("before", before_text(modelled, r.range));
  return facts;
}

Facts metric_facts(const StepReport& r) {
  const StepMetrics& m = r.metrics;
  Facts facts = time_facts(r);
  if (m.tokens_per_s > 0) {
    facts.rows.emplace_back("tokens/s",
                            fmt::format("{}, {:.4g} per GPU", with_commas(m.tokens_per_s), m.tokens_per_s_per_gpu));
  } else {
    facts.rows.emplace_back(r.head.plan.samples + "/s", m.samples_per_s >= 1e4
                                                            ? with_commas(m.samples_per_s)
                                                            : fmt::format("{:.4g}", m.samples_per_s));
  }
  facts.rows.emplace_back("model FLOP/s",
                          fmt::format("{:.1f} TFLOP/s per GPU", m.model_flops_per_s_per_gpu.value() / 1e12));
  facts.rows.emplace_back("MFU, HFU", fmt::format("{:.1f} %, {:.1f} %", 100 * m.mfu, 100 * m.hfu));
  if (m.causal_mfu < m.mfu)
    facts.rows.emplace_back(
        "MFU, causal", fmt::format("{:.1f} %, as Megatron-LM counts: causal attention at half", 100 * m.causal_mfu));
  if (m.run_time)
    facts.rows.emplace_back("whole run", fmt::format("{}, without failures and evaluation", duration(*m.run_time)));
  const TimeCategory c = bound_by(r.breakdown);
  const Seconds most = r.breakdown[c];
  facts.rows.emplace_back("bound by", fmt::format("{}: {} of {} ({:.0f} %)", words_of(c), to_string(most),
                                                  to_string(r.breakdown.total()), 100 * (most / r.breakdown.total())));
  facts.rows.emplace_back("back end", fmt::format("{}{}", r.backend, r.folding.empty() ? "" : "; " + r.folding));
  return facts;
}

Table breakdown_table(const StepReport& r) {
  std::vector<double> seconds;
  double most = 0;
  for (const Seconds s : r.breakdown.seconds) {
    seconds.push_back(s.value());
    most = std::max(most, s.value());
  }
  const std::vector<std::string> shares = percentages(seconds);
  const bool milli = r.breakdown.total() < Seconds{1};
  const auto shown = [milli](double s) { return fmt::format("{:.3f}", milli ? s * 1e3 : s); };
  Table table{fmt::format("Where the step goes, on the slowest rank (rank {}, {})", r.slowest_rank, r.slowest_role),
              {{"", false}, {milli ? "ms" : "seconds", true}, {"%", true}},
              {}};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (shown(seconds[i]) == "0.000" && shares[i] == "0.0") continue;
    table.rows.push_back({std::string(words_of(static_cast<TimeCategory>(i))), shown(seconds[i]), shares[i]});
    table.bars.push_back(seconds[i] / most);
  }
  table.rows.push_back({"step", shown(r.breakdown.total().value()), "100.0"});
  table.bars.push_back(0);
  return table;
}

std::string utilisation_text(const StepMetrics& m) {
  return m.mfu > 1 || m.hfu > 1 ? fmt::format("{} {}", kUtilisationDefinition, kMinimalFilteringNote)
                                : kUtilisationDefinition;
}

Table link_table(const StepReport& r) {
  Table table{"Busiest links", {{"link", false}, {"used %", true}, {"bytes per step", true}}, {}};
  for (const auto& l : r.busiest_links)
    table.rows.push_back({l.name, fmt::format("{:.1f}", 100 * l.utilisation), to_string(l.bytes)});
  return table;
}

std::string error_text(const ErrorSummary& e) {
  return e.rows > 0 ? fmt::format("{:.1f} % median, {} rows", 100 * e.median, e.rows) : "not tested";
}

Table evidence_table(const std::vector<EvidenceItem>& evidence) {
  Table table{"What prices rest on, and how far they are off on rows that gave no constant",
              {{"price of"}, {"evidence"}, {"off by"}},
              {}};
  for (const EvidenceItem& e : evidence)
    table.rows.push_back({words_of_group(e.what), std::string(name_of(e.evidence)), error_text(e.held_out)});
  return table;
}

ordered_json head_json(const ReportHead& head, bool fits) {
  return {{"schema", kResultSchema}, {"version", head.version}, {"fits", fits}};
}

ordered_json links_json(const StepReport& r) {
  auto out = ordered_json::array();
  for (const auto& l : r.busiest_links)
    out.push_back({{"name", l.name}, {"utilisation", l.utilisation}, {"bytes", std::llround(l.bytes.value())}});
  return out;
}

ordered_json evidence_json(const std::vector<EvidenceItem>& evidence) {
  auto out = ordered_json::array();
  for (const EvidenceItem& e : evidence) {
    ordered_json item{{"what", e.what},
                      {"words", words_of_group(e.what)},
                      {"evidence", name_of(e.evidence)},
                      {"source", e.source},
                      {"held_out", nullptr}};
    if (e.held_out.rows > 0)
      item["held_out"] = {
          {"rows", e.held_out.rows}, {"median", e.held_out.median}, {"p90", e.held_out.p90}, {"bias", e.held_out.bias}};
    out.push_back(std::move(item));
  }
  return out;
}

ordered_json metrics_json(const StepReport& r) {
  const StepMetrics& m = r.metrics;
  ordered_json out{{"step_time_s", m.step_time.value()},
                   {"samples_per_s", m.samples_per_s},
                   {"tokens_per_s", m.tokens_per_s},
                   {"tokens_per_s_per_gpu", m.tokens_per_s_per_gpu},
                   {"model_flops_per_s_per_gpu", m.model_flops_per_s_per_gpu.value()},
                   {"mfu", m.mfu},
                   {"hfu", m.hfu},
                   {"causal_mfu", m.causal_mfu}};
  if (m.run_time) out["run_time_s"] = m.run_time->value();
  if (r.range.rows > 0) add_range_json(m.step_time / r.range.middle, r.range, out);
  return out;
}

ordered_json step_json(const StepReport& r) {
  ordered_json out = head_json(r.head, r.memory.fits());
  out.update(metrics_json(r));
  out["bound_by"] = name_of(bound_by(r.breakdown));
  out["slowest_rank"] = r.slowest_rank;
  out["breakdown"] = breakdown_json(r.breakdown);
  out["memory"] = memory_json(r.memory);
  out["memory_range"] = memory_range_json(r.memory);
  out["suggestion"] = suggestion_json(r.memory);
  out["backend"] = r.backend;
  out["folded"] = r.folded;
  out["folding"] = r.folding;
  out["busiest_links"] = links_json(r);
  out["evidence"] = evidence_json(r.evidence);
  out["scenario"] = ordered_json::parse(r.head.scenario_json);
  return out;
}

/// One record: every number and word of the JSON result that is not a list, nested keys joined by dots.
Table step_records(const StepReport& r) {
  Table table{"", {}, {{}}};
  const auto add = [&table](const std::string& key, const ordered_json& value) {
    table.columns.push_back({key});
    table.rows.front().push_back(value.is_string() ? value.get<std::string>() : value.dump());
  };
  add("model", r.head.plan.model);
  add("gpus", r.head.plan.gpus);
  add("cluster", r.head.plan.cluster);
  add("strategy", r.head.plan.strategy);
  add("backend", r.backend);
  const ordered_json metrics = metrics_json(r), breakdown = breakdown_json(r.breakdown);
  for (const auto& [key, value] : metrics.items()) add(key, value);
  add("fits", r.memory.fits());
  add("peak_bytes", std::llround(r.memory.tightest().memory.peak.value()));
  add("bound_by", std::string(name_of(bound_by(r.breakdown))));
  for (const auto& [key, value] : breakdown.items()) add("breakdown." + key, value);
  return table;
}

}  // namespace

StepReport with_bias(StepReport r) {
  const double middle = r.range.middle;
  StepMetrics& m = r.metrics;
  m.step_time = m.step_time * middle;
  if (m.run_time) m.run_time = *m.run_time * middle;
  for (double* rate : {&m.samples_per_s, &m.tokens_per_s, &m.tokens_per_s_per_gpu, &m.mfu, &m.causal_mfu, &m.hfu})
    *rate /= middle;
  m.model_flops_per_s_per_gpu = m.model_flops_per_s_per_gpu / middle;
  r.breakdown *= middle;
  r.mean *= middle;
  return r;
}

Document step_document(const StepReport& modelled) {
  const StepReport r = with_bias(modelled);
  Document out;
  out.blocks = {heading(r.head.plan), metric_facts(r), Paragraph{utilisation_text(r.metrics)}, breakdown_table(r)};
  for (DocumentBlock& b : memory_blocks(r.memory)) out.blocks.push_back(std::move(b));
  if (!r.busiest_links.empty()) out.blocks.push_back(link_table(r));
  if (!r.evidence.empty()) out.blocks.push_back(evidence_table(r.evidence));
  if (r.trace && !r.rows.empty())
    out.blocks.push_back(
        Picture{"One step" + modelled_words(modelled.range) + ", one row per stage",
                [trace = r.trace, rows = r.rows, begin = r.begin, end = r.begin + modelled.metrics.step_time](
                    const TextStyle& style) { return draw_gantt(*trace, rows, begin, end, style); }});
  out.records = step_records(r);
  out.json = step_json(r).dump(2) + "\n";
  return out;
}

Document memory_document(const ReportHead& head, const MemoryReport& memory) {
  Document out;
  out.blocks.push_back(heading(head.plan));
  for (DocumentBlock& b : memory_blocks(memory)) out.blocks.push_back(std::move(b));
  out.records = memory_records(memory);
  ordered_json json = head_json(head, memory.fits());
  json["memory"] = memory_json(memory);
  json["memory_range"] = memory_range_json(memory);
  json["suggestion"] = suggestion_json(memory);
  json["scenario"] = ordered_json::parse(head.scenario_json);
  out.json = json.dump(2) + "\n";
  return out;
}

}  // namespace rehearse
