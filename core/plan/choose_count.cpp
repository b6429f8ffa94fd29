#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "core/plan/candidate.hpp"
#include "core/report/words.hpp"

namespace rehearse {

namespace {

constexpr int kMostSizes = 24;   // Tried to bracket the deadline.
constexpr int kMostScanned = 16; // Tried below the bracket.
constexpr double kUsualMfu = 0.4;
constexpr std::array<double, 7> kCurve{0.5, 0.75, 1, 1.5, 2, 3, 4};

class CountSearch {
 public:
  CountSearch(const Plan& plan, CandidateSite& site) : plan_(plan), site_(site) {
    limit_ = std::max(1, plan.max_gpus / site.facts.gpus);
    limited_by_ = fmt::format("max_gpus is {}", with_commas(plan.max_gpus));
    lower_limit(site.facts.most, fmt::format("network '{}' holds {} machines", site.facts.network, site.facts.most.value_or(0)));
    lower_limit(site.candidate.max_machines, fmt::format("max_machines is {}", site.candidate.max_machines.value_or(0)));
    if (site.candidate.network.empty()) lower_limit(1, "no network is stated");
    const Seconds at_peak = site.flops_per_token * plan.base.training.tokens / site.facts.peak;
    floor_ = at_peak / plan.deadline;
  }

  /// The fewest machines that meet the deadline, 0 where none found does.
  int fewest() {
    const int meets = bracket();
    if (meets == 0) return 0;
    const int first = std::max({1, static_cast<int>(std::ceil(floor_)), static_cast<int>(std::ceil(1 / best_rate()))});
    for (int n = first, tried = 0; n < meets && tried < kMostScanned; ++n, ++tried)
      if (in_time(n)) return n;
    return meets;
  }

  /// The fastest of the sizes tried; 0 where none runs.
  [[nodiscard]] int fastest() const {
    int out = 0;
    for (const auto& [n, p] : points_)
      if (p && (out == 0 || p->duration < points_.at(out)->duration)) out = n;
    return out;
  }

  void add_curve(int around) {
    for (const double factor : kCurve) {
      // Sizes that nothing divides are no choice of anybody: the larger ones are multiples of 4 or 8.
      const double wanted = around * factor, unit = factor == 1 || wanted < 16 ? 1 : wanted < 64 ? 4 : 8;
      if (const int n = static_cast<int>(std::round(wanted / unit) * unit); n >= 1 && n <= limit_) (void)at(n);
    }
  }

  [[nodiscard]] const std::map<int, std::optional<PlanPoint>>& points() const { return points_; }
  [[nodiscard]] std::int64_t evaluated() const { return evaluated_; }
  [[nodiscard]] const std::string& why_not() const { return why_not_; }
  [[nodiscard]] const std::string& limited_by() const { return limited_by_; }

 private:
  void lower_limit(std::optional<int> to, std::string why) {
    if (!to || *to >= limit_) return;
    limit_ = std::max(1, *to);
    limited_by_ = std::move(why);
  }

  const std::optional<PlanPoint>& at(int n) {
    const auto [it, fresh] = points_.try_emplace(n);
    if (fresh) it->second = plan_point(plan_, site_, n, evaluated_, &why_not_);
    return it->second;
  }
  bool in_time(int n) { return at(n) && at(n)->duration <= plan_.deadline; }

  /// Most of the whole run that one machine does within the deadline, over all sizes tried.
  [[nodiscard]] double best_rate() const {
    double out = 0;
    for (const auto& [n, p] : points_)
      if (p) out = std::max(out, plan_.deadline / p->duration / n);
    return out;
  }

  /// A size that meets the deadline and the next smaller one tried that doesn't, closed in on each other; 0 where the limit is reached first.
  int bracket() {
    int fails = static_cast<int>(std::min<double>(limit_, std::max(0.0, std::ceil(floor_) - 1))), meets = 0;
    int n = std::clamp(static_cast<int>(std::ceil(floor_ / kUsualMfu)), 1, limit_);
    for (int tried = 0; tried < kMostSizes; ++tried) {
      const std::optional<PlanPoint>& p = at(n);
      if (in_time(n)) meets = n;
      else fails = std::max(fails, n);
      if (meets != 0 ? meets - fails <= 1 : n == limit_) break;
      const double guess = p ? n * (p->duration / plan_.deadline) : 2.0 * n;
      const int next = static_cast<int>(std::ceil(std::min<double>(guess, limit_)));
      if (meets == 0) n = std::clamp(next, n + 1, limit_);
      else n = next > fails && next < meets && tried % 3 != 2 ? next : fails + (meets - fails) / 2;
    }
    return meets;
  }

  const Plan& plan_;
  CandidateSite& site_;
  int limit_ = 1;
  std::string limited_by_;
  double floor_ = 0;  // Machines at peak, without failures.
  std::map<int, std::optional<PlanPoint>> points_;
  std::int64_t evaluated_ = 0;
  std::string why_not_;
};

std::string machines_text(const PlanPoint& p) { return fmt::format("{} machine{} ({} GPUs)", with_commas(p.machines), p.machines == 1 ? "" : "s", with_commas(p.gpus)); }

std::string missed(const Plan& plan, const CandidateAnswer& a, const std::string& limited_by) {
  std::string out;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  const PlanPoint& p = *a.point;
  if (!a.meets_deadline) add(fmt::format("takes {:.1f} days on {}, the fastest size found, of the {:g} there are ({})", p.duration / Seconds{86400}, machines_text(p), plan.deadline / Seconds{86400}, limited_by));
  if (plan.budget && p.cost.parts.total() > *plan.budget) add(fmt::format("costs {} of a budget of {}", to_string(p.cost.parts.total(), 3), to_string(*plan.budget, 3)));
  if (plan.capital_budget && p.cost.capital > *plan.capital_budget) add(fmt::format("needs {} at once of a capital budget of {}", to_string(p.cost.capital, 3), to_string(*plan.capital_budget, 3)));
  return out;
}

}  // namespace

CandidateAnswer answer_candidate(const Plan& plan, CandidateSite& site) {
  CandidateAnswer out;
  out.candidate = site.candidate;
  out.facts = site.facts;
  out.price = site.price;
  out.rented = site.rented;
  out.reliability = site.reliability;
  CountSearch sizes(plan, site);
  int chosen = sizes.fewest();
  out.meets_deadline = chosen > 0;
  if (chosen == 0) chosen = sizes.fastest();
  if (chosen == 0) {
    out.why_not = sizes.why_not();
    out.evaluated = sizes.evaluated();
    return out;
  }
  sizes.add_curve(chosen);
  out.point = sizes.points().at(chosen);
  if (site.range) out.range = site.range(out.point->step.strategy);
  for (const auto& [n, p] : sizes.points())
    if (p) out.curve.push_back(*p);
  out.evaluated = sizes.evaluated();
  out.meets_deadline_high = out.point->duration * out.range.high <= plan.deadline;
  out.meets_budget = (!plan.budget || out.point->cost.parts.total() <= *plan.budget) && (!plan.capital_budget || out.point->cost.capital <= *plan.capital_budget);
  out.why_not = missed(plan, out, sizes.limited_by());
  return out;
}

}  // namespace rehearse
