#include "core/report/results/plan_report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/plan/plan_words.hpp"
#include "core/play/words.hpp"
#include "core/search/settings_json.hpp"
#include "core/search/space.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;

constexpr double kSparseCurve = 1.2;  // Sizes that are shown differ by at least this factor.

/// "58.9", "112".
std::string days_text(double d) { return d < 99.95 ? fmt::format("{:.1f}", d) : fmt::format("{:.0f}", d); }
/// Three digits, or all of a larger number.
std::string three_digits(double v) { return v < 999.5 ? fmt::format("{:.3g}", v) : with_commas(std::round(v)); }

/// "$1.1M-$1.5M".
std::string money_range(Dollars low, Dollars high) {
  return fmt::format("{}-{}", to_string(low, 2), to_string(high, 2));
}

std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

/// By where the deadline lies in the range of days.
std::string meets(const CandidateAnswer& a) {
  if (!a.point) return "cannot run";
  if (!a.meets_deadline) return "late";
  if (!a.meets_budget) return "too dear";
  return a.meets_deadline_high ? "in time" : "may be late";
}

Table candidates_table(const PlanAnswer& answer) {
  Table t{"",
          {{"", true},
           {"candidate"},
           {"machines", true},
           {"GPUs", true},
           {"days", true},
           {"80 % range", true},
           {"cost", true},
           {"at once", true},
           {""}},
          {}};
  int rank = 0;
  for (const CandidateAnswer& a : answer.ranked) {
    std::vector<std::string> row{std::to_string(++rank), a.candidate.name};
    if (const auto& p = a.point) {
      const double d = in_days(p->duration);
      for (std::string cell :
           {fmt::format("{}{}", p->machines, p->spares > 0 ? fmt::format("+{}", p->spares) : ""), with_commas(p->gpus),
            days_text(d), fmt::format("{}-{}", days_text(d * a.range.low), days_text(d * a.range.high)),
            money(p->cost.parts.total()), money(p->cost.capital)})
        row.push_back(std::move(cell));
    } else {
      row.insert(row.end(), 6, "-");
    }
    row.push_back(meets(a));
    t.rows.push_back(std::move(row));
  }
  return t;
}

/// A table with one row for each candidate that runs.
Table per_candidate(const PlanAnswer& answer, const std::string& title, std::vector<Column> columns,
                    const std::function<std::vector<std::string>(const CandidateAnswer&, const PlanPoint&)>& cells) {
  columns.insert(columns.begin(), {"candidate"});
  Table t{title, std::move(columns), {}};
  for (const CandidateAnswer& a : answer.ranked) {
    if (!a.point) continue;
    std::vector<std::string> row = cells(a, *a.point);
    row.insert(row.begin(), a.candidate.name);
    t.rows.push_back(std::move(row));
  }
  return t;
}

/// A line for each candidate that runs.
Facts line_each(const PlanAnswer& answer, const std::string& title,
                const std::function<std::string(const CandidateAnswer&, const PlanPoint&)>& text) {
  Facts out{title, {}};
  for (const CandidateAnswer& a : answer.ranked)
    if (a.point) out.rows.emplace_back(a.candidate.name, text(a, *a.point));
  return out;
}

Facts strategies(const PlanAnswer& answer) {
  return line_each(answer, "Best strategy found", [](const CandidateAnswer&, const PlanPoint& p) {
    return fmt::format("{}; batch {}, {:.3g} s a step, MFU {} %, {} % of memory", p.step.label,
                       with_commas(static_cast<double>(p.step.global_batch)), p.step.step_time.value(),
                       percent(p.step.mfu), percent(p.step.needed / p.step.capacity));
  });
}

Table money_table(const PlanAnswer& answer) {
  return per_candidate(answer, "Cost of the run",
                       {{"purchase", true},
                        {"network", true},
                        {"power", true},
                        {"cooling", true},
                        {"rental", true},
                        {"80 % range", true},
                        {"MWh", true}},
                       [](const CandidateAnswer& a, const PlanPoint& p) {
                         const CostParts& c = p.cost.parts;
                         const Dollars total = c.total();
                         return std::vector<std::string>{money(c.purchase),
                                                         money(c.network),
                                                         money(c.power),
                                                         money(c.cooling),
                                                         money(c.rental),
                                                         money_range(total * a.range.low, total * a.range.high),
                                                         three_digits(in_mwh(p.cost.energy))};
                       });
}

Table failures_table(const PlanAnswer& answer) {
  return per_candidate(answer, "Failures",
                       {{"MTBF h", true},
                        {"a day", true},
                        {"save every", true},
                        {"write s", true},
                        {"late %", true},
                        {"short %", true},
                        {"goodput %", true}},
                       [](const CandidateAnswer&, const PlanPoint& p) {
                         const Goodput& g = p.goodput;
                         return std::vector<std::string>{three_digits(in_hours(g.mtbf)),
                                                         fmt::format("{:.2f}", g.interruptions_per_day),
                                                         to_string(g.interval, 3),
                                                         fmt::format("{:.3g}", g.write.value()),
                                                         percent(1 / g.stragglers - 1),
                                                         percent(1 - g.spares),
                                                         percent(g.total)};
                       });
}

Facts sizes(const PlanAnswer& answer) {
  return line_each(answer, "Other sizes: GPUs, days and cost", [](const CandidateAnswer& a, const PlanPoint& chosen) {
    std::vector<std::string> out;
    double last = 0;
    for (const PlanPoint& p : a.curve) {
      const bool crowded =
          p.gpus < last * kSparseCurve || (p.gpus < chosen.gpus && p.gpus * kSparseCurve > chosen.gpus);
      if (crowded && p.gpus != chosen.gpus) continue;
      last = p.gpus;
      out.push_back(
          fmt::format("{}: {} d {}", with_commas(p.gpus), days_text(in_days(p.duration)), money(p.cost.parts.total())));
    }
    return fmt::format("{}", fmt::join(out, "; "));
  });
}

void add_sources(const PlanAnswer& answer, std::vector<DocumentBlock>& out) {
  const auto amount = [](const CandidateAnswer& a, const std::string& figure) {
    if (figure == "purchase") return money(a.price.purchase.value_or(Dollars{0}));
    if (figure == "network") return money(a.price.network.value_or(Dollars{0}));
    if (figure == "rental") return to_string(a.price.rental.value_or(Dollars{0}), 4) + " per GPU-hour";
    return to_string(a.price.power.value_or(Watts{0}));
  };
  Facts facts{"Prices and what they rest on", {}};
  for (const CandidateAnswer& a : answer.ranked) {
    for (const PriceSource& s : a.price.sources) {
      if ((s.figure == "rental") != a.rented && s.figure != "power") continue;
      facts.rows.emplace_back(a.candidate.name,
                              fmt::format("{} {} ({}{}): {}", s.figure, amount(a, s.figure),
                                          s.date.empty() ? "" : s.date + ", ", name_of(s.evidence), s.text));
    }
  }
  out.push_back(std::move(facts));
  Facts failures{"Failure rates", {}};
  for (const CandidateAnswer& a : answer.ranked)
    failures.rows.emplace_back(a.candidate.name, a.reliability.name.empty() ? "none" : a.reliability.name);
  out.push_back(std::move(failures));
  std::vector<std::string> said;
  for (const CandidateAnswer& a : answer.ranked)
    if (!a.range.source.empty() && std::find(said.begin(), said.end(), a.range.source) == said.end())
      said.push_back(a.range.source);
  for (const std::string& line : said) out.push_back(Paragraph{capital(line)});
}

std::string method_text(const Plan& plan) {
  const Economics& e = plan.economics;
  return fmt::format(
      "Days = tokens / (tokens per step) x step time / goodput. Goodput = stragglers x checkpoints x spares. A "
      "purchase counts by its share of {:g} years at {:.0f} % use; machines draw {:.0f} % of their rated power, the "
      "site {:g} times as "
      "much, at {} per kWh. '+N' after machines: spares. At once: machines and network, before the first step. Save "
      "every: checkpoints; late %: waiting for the slowest rank; short %: of machines, without enough spares. 'In "
      "time': the slow end of the range meets the deadline; 'may be late': the prediction meets it, the slow end does "
      "not; 'late': nor does the prediction.",
      e.amortisation_years, 100 * e.utilisation, 100 * e.power_share, e.pue, to_string(e.electricity, 3));
}

ordered_json strategy_json(const StepChoice& s) {
  ordered_json out = settings_json(s.strategy);
  out["global_batch"] = s.global_batch;
  return out;
}

ordered_json parts_json(const CostParts& c) {
  return {{"purchase", c.purchase.value()},
          {"power", c.power.value()},
          {"cooling", c.cooling.value()},
          {"network", c.network.value()},
          {"rental", c.rental.value()}};
}

ordered_json curve_json(const CandidateAnswer& a) {
  ordered_json out = ordered_json::array();
  for (const PlanPoint& p : a.curve) {
    out.push_back({{"gpus", p.gpus},
                   {"machines", p.machines},
                   {"spares", p.spares},
                   {"days", in_days(p.duration)},
                   {"cost_usd", p.cost.parts.total().value()},
                   {"capital_usd", p.cost.capital.value()},
                   {"energy_mwh", in_mwh(p.cost.energy)},
                   {"mfu", p.step.mfu},
                   {"goodput", p.goodput.total},
                   {"label", p.step.label}});
  }
  return out;
}

ordered_json price_json(const CandidateAnswer& a) {
  ordered_json out{{"rented", a.rented}};
  if (a.price.purchase) out["purchase_usd"] = a.price.purchase->value();
  if (a.price.network) out["network_usd"] = a.price.network->value();
  if (a.price.rental) out["rental_usd_per_gpu_hour"] = a.price.rental->value();
  out["rated_power_w"] = a.facts.rated.value();
  out["rated_power_estimated"] = a.facts.rated_estimated;
  out["sources"] = ordered_json::array();
  for (const PriceSource& s : a.price.sources)
    out["sources"].push_back(
        {{"figure", s.figure}, {"date", s.date}, {"source", s.text}, {"evidence", name_of(s.evidence)}});
  return out;
}

ordered_json reliability_json(const ReliabilityProfile& r) {
  ordered_json out{{"profile", r.name}, {"mtbf_hours", ordered_json::object()}, {"sources", ordered_json::array()}};
  for (int p = 0; p < kParts; ++p) out["mtbf_hours"][nth(part_names(), p)] = in_hours(nth(r.times.of, p));
  for (const Source& s : r.sources) out["sources"].push_back({{"source", s.text}, {"evidence", name_of(s.evidence)}});
  return out;
}

ordered_json figures_json(const CandidateAnswer& a, const PlanPoint& p) {
  const double step = p.step.step_time.value(), d = in_days(p.duration), cost = p.cost.parts.total().value();
  const Goodput& g = p.goodput;
  return {{"gpus", p.gpus},
          {"machines", p.machines},
          {"spares", p.spares},
          {"strategy", strategy_json(p.step)},
          {"label", p.step.label},
          {"step_time_s", step},
          {"step_time_s_p10", step * a.range.low},
          {"step_time_s_p90", step * a.range.high},
          {"modelled_step_time_s", step / a.range.middle},
          {"bias", a.range.middle - 1},
          {"mfu", p.step.mfu},
          {"memory_needed_bytes", p.step.needed.value()},
          {"memory_capacity_bytes", p.step.capacity.value()},
          {"days", d},
          {"days_p10", d * a.range.low},
          {"days_p90", d * a.range.high},
          {"goodput", g.total},
          {"goodput_parts", {{"stragglers", g.stragglers}, {"checkpoints", g.checkpoints}, {"spares", g.spares}}},
          {"mtbf_hours", in_hours(g.mtbf)},
          {"interruptions_per_day", g.interruptions_per_day},
          {"checkpoint_interval_s", g.interval.value()},
          {"checkpoint_write_s", g.write.value()},
          {"cost_usd", cost},
          {"cost_usd_p10", cost * a.range.low},
          {"cost_usd_p90", cost * a.range.high},
          {"cost_parts", parts_json(p.cost.parts)},
          {"capital_usd", p.cost.capital.value()},
          {"energy_mwh", in_mwh(p.cost.energy)}};
}

ordered_json candidate_json(const CandidateAnswer& a, int rank) {
  ordered_json out{{"rank", rank},       {"name", a.candidate.name},   {"machine", a.facts.id},
                   {"gpu", a.facts.gpu}, {"network", a.facts.network}, {"interrupted", a.interrupted}};
  if (a.point) {
    out.update(figures_json(a, *a.point));
  } else {
    for (const char* key : {"gpus",
                            "machines",
                            "strategy",
                            "label",
                            "step_time_s",
                            "step_time_s_p10",
                            "step_time_s_p90",
                            "modelled_step_time_s",
                            "bias",
                            "mfu",
                            "days",
                            "days_p10",
                            "days_p90",
                            "goodput",
                            "mtbf_hours",
                            "checkpoint_interval_s",
                            "cost_usd",
                            "cost_usd_p10",
                            "cost_usd_p90",
                            "cost_parts",
                            "energy_mwh"})
      out[key] = nullptr;
  }
  out["meets_deadline"] = a.meets_deadline;
  out["meets_deadline_p90"] = a.meets_deadline_high;
  out["meets_budget"] = a.meets_budget;
  out["curve"] = curve_json(a);
  out["why_not"] = a.why_not;
  out["range_source"] = a.range.source;
  out["reliability"] = reliability_json(a.reliability);
  out["price"] = price_json(a);
  out["evaluated"] = a.evaluated;
  return out;
}

std::string json_of(const PlanAnswer& answer, const std::string& version) {
  const Plan& plan = answer.plan;
  ordered_json out{{"schema", kPlanResultSchema},
                   {"version", version},
                   {"plan", plan.name},
                   {"question", answer.question},
                   {"model", answer.model},
                   {"parameters", answer.parameters},
                   {"tokens", plan.base.training.tokens},
                   {"deadline_days", in_days(plan.deadline)},
                   {"budget_usd", plan.budget ? ordered_json(plan.budget->value()) : ordered_json()},
                   {"objective", name_of(plan.objective)},
                   {"candidates", ordered_json::array()}};
  for (const CandidateAnswer& a : answer.ranked)
    out["candidates"].push_back(candidate_json(a, static_cast<int>(out["candidates"].size()) + 1));
  out["why"] = answer.why;
  out["interrupted"] = answer.interrupted;
  return out.dump(2) + "\n";
}

Table records_of(const PlanAnswer& answer) {
  Table t;
  for (const char* title :
       {"rank",         "candidate",    "machine",        "machines",     "spares",    "gpus",        "strategy",
        "step_time_s",  "mfu",          "days",           "days_p10",     "days_p90",  "goodput",     "cost_usd",
        "cost_usd_p10", "cost_usd_p90", "purchase_usd",   "network_usd",  "power_usd", "cooling_usd", "rental_usd",
        "capital_usd",  "energy_mwh",   "meets_deadline", "meets_budget", "why_not"})
    t.columns.push_back({title});
  int rank = 0;
  for (const CandidateAnswer& a : answer.ranked) {
    std::vector<std::string> row{std::to_string(++rank), a.candidate.name, a.facts.id};
    if (const auto& p = a.point) {
      const CostParts& c = p->cost.parts;
      const auto number = [](double v) { return fmt::format("{:.6g}", v); };
      for (const int n : {p->machines, p->spares, p->gpus}) row.push_back(std::to_string(n));
      row.push_back(p->step.label);
      const double d = in_days(p->duration), total = c.total().value();
      for (const double v :
           {p->step.step_time.value(), p->step.mfu, d, d * a.range.low, d * a.range.high, p->goodput.total, total,
            total * a.range.low, total * a.range.high, c.purchase.value(), c.network.value(), c.power.value(),
            c.cooling.value(), c.rental.value(), p->cost.capital.value(), in_mwh(p->cost.energy)})
        row.push_back(number(v));
    } else {
      row.insert(row.end(), 20, "");
    }
    for (const bool b : {a.meets_deadline, a.meets_budget}) row.emplace_back(b ? "true" : "false");
    row.push_back(a.why_not);
    t.rows.push_back(std::move(row));
  }
  return t;
}

}  // namespace

Document plan_document(const PlanAnswer& answer, const std::string& program_version) {
  Document out;
  out.blocks.push_back(Heading{answer.question});
  if (answer.interrupted)
    out.blocks.push_back(Paragraph{"Interrupted: ranked by the sizes that were tried until then."});
  out.blocks.push_back(candidates_table(answer));
  out.blocks.push_back(Paragraph{answer.why});
  Facts misses{"What the others miss", {}};
  for (const CandidateAnswer& a : answer.ranked)
    if (!a.why_not.empty()) misses.rows.emplace_back(a.candidate.name, a.why_not);
  if (!misses.rows.empty()) out.blocks.push_back(std::move(misses));
  if (std::any_of(answer.ranked.begin(), answer.ranked.end(),
                  [](const CandidateAnswer& a) { return a.point.has_value(); }))
    for (DocumentBlock b : {DocumentBlock(strategies(answer)), DocumentBlock(money_table(answer)),
                            DocumentBlock(failures_table(answer)), DocumentBlock(sizes(answer))})
      out.blocks.push_back(std::move(b));
  out.blocks.push_back(Paragraph{method_text(answer.plan)});
  add_sources(answer, out.blocks);
  out.records = records_of(answer);
  out.json = json_of(answer, program_version);
  return out;
}

}  // namespace rehearse
