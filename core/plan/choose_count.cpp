#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/plan/plan_words.hpp"
#include "core/plan/rank.hpp"
#include "core/report/words.hpp"

namespace rehearse {

namespace {

constexpr int kMostSizes = 24;   // Tried to bracket the deadline.
constexpr int kMostScanned = 16; // Tried below the bracket.
constexpr int kMostClosing = 8;  // Tried to close in on a budget.
constexpr double kRounding = 1e-9;
constexpr double kUsualMfu = 0.4;
constexpr std::array<double, 7> kCurve{0.5, 0.75, 1, 1.5, 2, 3, 4};

/// Dearer than the budgets by this factor, in that which is exceeded most; 0 where both are kept.
double over_budget(const Plan& plan, const PlanPoint& p) {
  const auto share = [](Dollars cost, const std::optional<Dollars>& budget) { return !budget || cost <= *budget ? 0 : *budget > Dollars{0} ? cost / *budget : std::numeric_limits<double>::infinity(); };
  return std::max(share(p.cost.parts.total(), plan.budget), share(p.cost.capital, plan.capital_budget));
}
bool within_budgets(const Plan& plan, const PlanPoint& p) { return over_budget(plan, p) == 0; }

/// The size with the least `value`; the fewest machines of those that differ by rounding only.
template <typename Value>
const PlanPoint* least(const std::vector<const PlanPoint*>& sizes, Value value) {
  const PlanPoint* out = nullptr;
  for (const PlanPoint* p : sizes)
    if (out == nullptr || value(*p) < value(*out) * (1 - kRounding)) out = p;
  return out;
}

/// Of sizes by machines, each faster than the one before: by the objective among those in time and within the budgets; else nearest to the budgets among
/// those in time; else the fastest.
const PlanPoint* choose(const Plan& plan, const std::vector<const PlanPoint*>& sizes) {
  std::vector<const PlanPoint*> in_time, good;
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(in_time), [&](const PlanPoint* p) { return p->duration <= plan.deadline; });
  std::copy_if(in_time.begin(), in_time.end(), std::back_inserter(good), [&](const PlanPoint* p) { return within_budgets(plan, *p); });
  if (!good.empty()) return least(good, [&](const PlanPoint& p) { return objective_value(plan.objective, p); });
  if (!in_time.empty()) return least(in_time, [&](const PlanPoint& p) { return over_budget(plan, p); });
  return sizes.empty() ? nullptr : sizes.back();
}

class CountSearch {
 public:
  CountSearch(const Plan& plan, CandidateSite& site) : plan_(plan), site_(site) {
    limit_ = std::max(1, plan.max_gpus / site.facts.gpus);
    limited_by_ = fmt::format("max_gpus is {}", with_commas(plan.max_gpus));
    lower_limit(site.facts.most, fmt::format("network '{}' holds {} machine{}", site.facts.network, site.facts.most.value_or(0), site.facts.most == 1 ? "" : "s"));
    lower_limit(site.candidate.max_machines, fmt::format("max_machines is {}", site.candidate.max_machines.value_or(0)));
    if (site.candidate.network.empty()) lower_limit(1, "no network is stated");
    const Seconds at_peak = site.flops_per_token * plan.base.training.tokens / site.facts.peak;
    floor_ = at_peak / plan.deadline;
  }

  /// Tries what the objective needs: around the fewest in time, and for the fastest also up to the limit.
  void explore() {
    int around = fewest();
    if (around == 0) {
      try_even_sizes();
      around = frontier().empty() ? 0 : frontier().back()->machines;
    }
    if (around == 0) return;
    add_curve(around);
    if (plan_.objective == PlanObjective::days) try_larger();
  }

  /// The sizes that are worth having: each faster than all smaller ones, as machines beyond the best smaller size may stand idle.
  [[nodiscard]] std::vector<const PlanPoint*> frontier() const {
    std::vector<const PlanPoint*> out;
    for (const auto& [n, p] : points_)
      if (p && (out.empty() || p->duration < out.back()->duration)) out.push_back(&*p);
    return out;
  }

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
  /// The fewest machines that meet the deadline, 0 where none found does.
  int fewest() {
    const int meets = bracket();
    if (meets == 0) return 0;
    const int first = std::max({1, static_cast<int>(std::ceil(floor_)), static_cast<int>(std::ceil(1 / best_rate()))});
    for (int n = first, tried = 0; n < meets && tried < kMostScanned; ++n, ++tried)
      if (in_time(n)) return n;
    return meets;
  }

  /// Just below the limit: the largest multiples of powers of two, which divide a batch better than the limit itself may.
  void try_even_sizes() {
    for (int unit = 1; unit <= limit_; unit *= 2) (void)at(limit_ / unit * unit);
  }

  /// From the limit down by halves to the largest size within the budgets, then closer to it from below.
  void try_larger() {
    try_even_sizes();
    const auto fits = [this](int n) { return at(n) && within_budgets(plan_, *at(n)); };
    int high = limit_ + 1, low = limit_;
    while (low > 1 && !fits(low)) high = std::exchange(low, low / 2);
    for (int tried = 0; tried < kMostClosing && high - low > 1; ++tried) {
      const int middle = low + (high - low) / 2;
      (fits(middle) ? low : high) = middle;
    }
  }

  void add_curve(int around) {
    for (const double factor : kCurve) {
      // Sizes that nothing divides are no choice of anybody: the larger ones are multiples of 4 or 8.
      const double wanted = around * factor, unit = factor == 1 || wanted < 16 ? 1 : wanted < 64 ? 4 : 8;
      if (const int n = static_cast<int>(std::round(wanted / unit) * unit); n >= 1 && n <= limit_) (void)at(n);
    }
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

std::string machines_text(const PlanPoint& p) { return fmt::format("{} machine{} ({} GPU{})", with_commas(p.machines), p.machines == 1 ? "" : "s", with_commas(p.gpus), p.gpus == 1 ? "" : "s"); }

std::string missed(const Plan& plan, const CandidateAnswer& a, const std::string& limited_by) {
  std::string out;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  const PlanPoint& p = *a.point;
  if (!a.meets_deadline) add(fmt::format("takes {:.1f} days instead of {:g} on {}, the fastest size found; no more than that can be had: {}", in_days(p.duration), in_days(plan.deadline), machines_text(p), limited_by));
  if (plan.budget && p.cost.parts.total() > *plan.budget) add(fmt::format("costs {} of a budget of {}", money(p.cost.parts.total()), money(*plan.budget)));
  if (plan.capital_budget && p.cost.capital > *plan.capital_budget) add(fmt::format("needs {} at once of a capital budget of {}", money(p.cost.capital), money(*plan.capital_budget)));
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
  sizes.explore();
  const std::vector<const PlanPoint*> frontier = sizes.frontier();
  const PlanPoint* chosen = choose(plan, frontier);
  out.evaluated = sizes.evaluated();
  if (chosen == nullptr) {
    out.why_not = sizes.why_not();
    return out;
  }
  out.point = *chosen;
  out.meets_deadline = chosen->duration <= plan.deadline;
  if (site.range) out.range = site.range(out.point->step.strategy);
  for (const PlanPoint* p : frontier) out.curve.push_back(*p);
  out.meets_deadline_high = out.point->duration * out.range.high <= plan.deadline;
  out.meets_budget = within_budgets(plan, *out.point);
  out.why_not = missed(plan, out, sizes.limited_by());
  return out;
}

}  // namespace rehearse
