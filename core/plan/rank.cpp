#include "core/plan/rank.hpp"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "core/plan/plan_words.hpp"
#include "core/play/words.hpp"

namespace rehearse {

namespace {

std::string count_text(double n) {
  if (n >= 1e12) return fmt::format("{:.3g} trillion", n / 1e12);
  if (n >= 1e9) return fmt::format("{:.3g} billion", n / 1e9);
  return fmt::format("{:.3g} million", n / 1e6);
}

/// "1 day", "2.5 days".
std::string count_of(double n, const char* noun) { return fmt::format("{:g} {}{}", n, noun, n == 1 ? "" : "s"); }

std::string question_of(const Plan& plan, const std::string& model, double parameters) {
  std::string out = fmt::format("Which machine, and how many, to train {} ({} parameters) on {} tokens in {}", model,
                                count_text(parameters), count_text(plan.base.training.tokens),
                                count_of(in_days(plan.deadline), "day"));
  if (plan.budget) out += fmt::format(" for at most {}", money(*plan.budget));
  return out + "?";
}

int group_of(const CandidateAnswer& a) { return !a.point ? 3 : !a.meets_deadline ? 2 : !a.meets_budget ? 1 : 0; }

/// "costs $4.1M", "takes 58 days", ...
std::string objective_text(PlanObjective objective, const PlanPoint& p) {
  switch (objective) {
    case PlanObjective::cost: return "costs " + money(p.cost.parts.total());
    case PlanObjective::days: return fmt::format("takes {:.1f} days", in_days(p.duration));
    case PlanObjective::energy: return fmt::format("uses {:.0f} MWh", in_mwh(p.cost.energy));
    case PlanObjective::capital: return fmt::format("needs {} at once", money(p.cost.capital));
  }
  return {};
}

double gpu_hours(const PlanPoint& p) { return p.gpus * in_hours(p.duration); }

std::string size_text(const CandidateAnswer& a) {
  const PlanPoint& p = *a.point;
  return fmt::format("{} on {} GPU{} ({} machine{}{})", a.candidate.name, with_commas(p.gpus), p.gpus == 1 ? "" : "s",
                     with_commas(p.machines), p.machines == 1 ? "" : "s",
                     p.spares > 0 ? fmt::format(" and {} spare", p.spares) : "");
}

std::string first_sentences(const Plan& plan, const CandidateAnswer& a) {
  const PlanPoint& p = *a.point;
  std::string out = fmt::format("{}: it {}", size_text(a), objective_text(plan.objective, p));
  if (plan.objective != PlanObjective::days) out += fmt::format(" in {:.1f} days", in_days(p.duration));
  if (plan.objective != PlanObjective::cost) out += fmt::format(" and costs {}", money(p.cost.parts.total()));
  out += fmt::format(", by {} at {:.0f} % of peak, {:.1f} % of the time in training, {} GPU-hours at {} each.",
                     p.step.label, 100 * p.step.mfu, 100 * p.goodput.total, with_commas(std::round(gpu_hours(p))),
                     to_string(p.cost.parts.total() / gpu_hours(p), 3));
  if (p.step.nearly_full())
    out += fmt::format(" It needs {:.1f} % of a GPU's memory: less than {:.0f} % is left for fragments and workspaces.",
                       100 * p.step.fullness(), 100 * kLeastHeadroom);
  if (!a.meets_deadline_high && a.meets_deadline)
    out += fmt::format(" At the slow end of what the step time may be it takes {:.1f} days, and misses the deadline.",
                       in_days(p.duration) * a.range.high);
  return out;
}

std::string against(const Plan& plan, const CandidateAnswer& first, const CandidateAnswer& second) {
  const double a = objective_value(plan.objective, *first.point), b = objective_value(plan.objective, *second.point);
  std::string out = fmt::format(" Next is {}: it {}", size_text(second), objective_text(plan.objective, *second.point));
  if (a > 0 && group_of(first) == group_of(second)) out += fmt::format(", {:.0f} % more", 100 * (b / a - 1));
  out +=
      fmt::format("; per GPU-hour {} against {}, and {} GPU-hours against {}.",
                  to_string(second.point->cost.parts.total() / gpu_hours(*second.point), 3),
                  to_string(first.point->cost.parts.total() / gpu_hours(*first.point), 3),
                  with_commas(std::round(gpu_hours(*second.point))), with_commas(std::round(gpu_hours(*first.point))));
  if (group_of(first) == group_of(second) && plan.objective != PlanObjective::capital &&
      b * second.range.low < a * first.range.high)
    out += " Their ranges overlap: errors of the model of this size could turn the order around.";
  return out;
}

std::string why_of(const Plan& plan, const std::vector<CandidateAnswer>& ranked) {
  const CandidateAnswer& first = ranked.front();
  if (!first.point) return fmt::format("No candidate can run this: {}: {}.", first.candidate.name, first.why_not);
  std::string out = "First is ";
  const auto good =
      std::count_if(ranked.begin(), ranked.end(), [](const CandidateAnswer& a) { return group_of(a) == 0; });
  if (good == 0)
    out =
        fmt::format("No candidate meets the {}. Nearest is ",
                    std::any_of(ranked.begin(), ranked.end(), [](const CandidateAnswer& a) { return a.meets_deadline; })
                        ? "budget in time"
                        : "deadline");
  out += first_sentences(plan, first);
  if (good == 0) out += fmt::format(" It {}.", first.why_not);
  if (ranked.size() > 1 && ranked[1].point) out += against(plan, first, ranked[1]);
  return out;
}

/// From the file of the machine itself, else the cheapest candidate with such GPUs.
void find_rent(const std::vector<CandidateAnswer>& all, const Economics& economics, CandidateAnswer& a) {
  if (a.rented) return;
  a.rent = a.price.rental;
  a.rented_from = a.candidate.name;
  for (const CandidateAnswer& other : all)
    if (!a.price.rental && other.facts.gpu == a.facts.gpu && other.price.rental &&
        (!a.rent || *other.price.rental < *a.rent)) {
      a.rent = other.price.rental;
      a.rented_from = other.candidate.name;
    }
  if (a.rent) a.break_even = break_even_months(a.price, economics, a.facts.gpus, a.facts.rated, *a.rent);
}

}  // namespace

double objective_value(PlanObjective objective, const PlanPoint& p) {
  switch (objective) {
    case PlanObjective::cost: return p.cost.parts.total().value();
    case PlanObjective::days: return p.duration.value();
    case PlanObjective::energy: return p.cost.energy.value();
    case PlanObjective::capital: return p.cost.capital.value();
  }
  return 0;
}

PlanAnswer rank_candidates(Plan plan, const std::string& model, double parameters,
                           std::vector<CandidateAnswer> candidates) {
  const auto key = [&plan](const CandidateAnswer& a) {
    const int group = group_of(a);
    const double value = !a.point     ? 0
                         : group == 2 ? a.point->duration.value()
                                      : objective_value(plan.objective, *a.point);
    return std::tuple(group, value, a.candidate.name);
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const CandidateAnswer& a, const CandidateAnswer& b) { return key(a) < key(b); });
  for (CandidateAnswer& a : candidates) find_rent(candidates, plan.economics, a);
  PlanAnswer out;
  out.question = plan.question.empty() ? question_of(plan, model, parameters) : plan.question;
  out.model = model;
  out.parameters = parameters;
  out.why = why_of(plan, candidates);
  out.interrupted =
      std::any_of(candidates.begin(), candidates.end(), [](const CandidateAnswer& a) { return a.interrupted; });
  out.ranked = std::move(candidates);
  out.plan = std::move(plan);
  return out;
}

}  // namespace rehearse
