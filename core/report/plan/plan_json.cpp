#include "core/report/plan/plan_json.hpp"

#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/plan/plan_words.hpp"
#include "core/report/plan/plan_report.hpp"
#include "core/search/settings_json.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;

ordered_json strategy_json(const StepChoice& s) {
  ordered_json out = settings_json(s.strategy);
  out["global_batch"] = s.global_batch;
  return out;
}

ordered_json parts_json(const CostParts& c) {
  return {{"purchase", c.purchase.value()}, {"power", c.power.value()},     {"cooling", c.cooling.value()},
          {"network", c.network.value()},   {"storage", c.storage.value()}, {"site", c.site.value()},
          {"staff", c.staff.value()},       {"rental", c.rental.value()}};
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
  const PeakRange::Ends memory = a.peak.ends(p.step.needed, p.step.allocated);
  const auto known = [&](Bytes end) { return a.peak.rows > 0 ? ordered_json(end.value()) : ordered_json(nullptr); };
  return {{"gpus", p.gpus},
          {"machines", p.machines},
          {"spares", p.spares},
          {"strategy", strategy_json(p.step)},
          {"label", p.step.label},
          {"step_time_s", step},
          {"step_time_s_p10", step * a.range.low},
          {"step_time_s_p90", step * a.range.high},
          {"modelled_step_time_s", step / a.range.middle},
          {"closed_form_step_time_s", (p.step.played_by.empty() ? step : p.step.closed_form.value()) / a.range.middle},
          {"played_by", p.step.played_by},
          {"why_not_played", p.step.why_not_played},
          {"bias", a.range.middle - 1},
          {"mfu", p.step.mfu},
          {"memory_needed_bytes", p.step.needed.value()},
          {"memory_needed_bytes_p10", known(memory.low)},
          {"memory_needed_bytes_p90", known(memory.high)},
          {"memory_capacity_bytes", p.step.capacity.value()},
          {"memory_nearly_full", p.step.nearly_full()},
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
          {"first_year_usd", p.cost.a_year.value()},
          {"energy_mwh", in_mwh(p.cost.energy)}};
}

ordered_json swings_json(const CandidateAnswer& a) {
  ordered_json out = ordered_json::array();
  for (const Swing& s : a.swings)
    out.push_back({{"figure", s.what},
                   {"from", s.from},
                   {"to", s.to},
                   {"cost_from_usd", s.cost_from.value()},
                   {"cost_to_usd", s.cost_to.value()}});
  return out;
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
  if (!a.play_line.empty()) out["play"] = a.play_line;
  out["meets_deadline"] = a.meets_deadline;
  out["meets_deadline_p90"] = a.meets_deadline_high;
  out["odds_late"] = a.odds_late;
  out["tornado"] = swings_json(a);
  if (a.rent) {
    out["rent_usd_per_gpu_hour"] = a.rent->value();
    out["break_even_months"] = a.break_even ? ordered_json(*a.break_even) : ordered_json();
  }
  out["meets_budget"] = a.meets_budget;
  out["curve"] = curve_json(a);
  out["why_not"] = a.why_not;
  out["range_source"] = a.range.source;
  out["memory_range_source"] = a.peak.rests_on;
  out["reliability"] = reliability_json(a.reliability);
  out["price"] = price_json(a);
  out["evaluated"] = a.evaluated;
  return out;
}

}  // namespace

std::string plan_json(const PlanAnswer& answer, const std::string& version) {
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
  if (!answer.export_line.empty()) out["export"] = answer.export_line;
  return out.dump(2) + "\n";
}

}  // namespace rehearse
