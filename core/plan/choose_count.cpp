#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/plan/plan_words.hpp"
#include "core/plan/rank.hpp"
#include "core/play/words.hpp"

namespace rehearse {

namespace {

constexpr int kMostSizes = 24;    // Tried to bracket the deadline.
constexpr int kMostScanned = 16;  // Tried below the bracket.
constexpr int kMostClosing = 8;   // Tried to close in on a budget.
constexpr int kMostSettled = 24;  // Looks at sizes that are chosen, and tries of larger ones.
constexpr double kRounding = 1e-9;
// Of money and energy: no buyer orders twice the machines to save less, and predictions are off by about as much.
constexpr double kIndifferent = 0.05;
constexpr double kFirstGuess = 0.5;  // Of the peak, for the size tried first; the answer does not depend on it.
constexpr double kUsualSizes = 20;   // Tried for one candidate: for the share that progress shows.
constexpr std::array<double, 7> kCurve{0.5, 0.75, 1, 1.5, 2, 3, 4};

/// Dearer than the budgets by this factor, in that which is exceeded most; 0 where both are kept.
double over_budget(const Plan& plan, const PlanPoint& p) {
  const auto share = [](Dollars cost, const std::optional<Dollars>& budget) {
    return !budget || cost <= *budget ? 0
           : *budget > Dollars{0}     ? cost / *budget
                                      : std::numeric_limits<double>::infinity();
  };
  return std::max({share(p.cost.parts.total(), plan.budget), share(p.cost.capital, plan.capital_budget),
                   share(p.cost.a_year, plan.annual_budget)});
}
bool within_budgets(const Plan& plan, const PlanPoint& p) { return over_budget(plan, p) == 0; }

/// When a run ends that takes `times` as long as predicted, from the order.
Seconds ends(const PlanPoint& p, double times) { return p.end + p.duration * (times - 1); }

/// Of the sizes with the least `value`, or above it by no more than the share `margin`, the one with the fewest
/// machines.
template <typename Value>
const PlanPoint* least(const std::vector<const PlanPoint*>& sizes, double margin, Value value) {
  double limit = std::numeric_limits<double>::infinity();
  for (const PlanPoint* p : sizes) limit = std::min(limit, value(*p) * (1 + margin));
  return *std::find_if(sizes.begin(), sizes.end(), [&](const PlanPoint* p) { return value(*p) <= limit; });
}

/// Time and money at once are for the user to weigh to the last bit.
double margin_of(PlanObjective objective) {
  return objective == PlanObjective::cost || objective == PlanObjective::energy ? kIndifferent : kRounding;
}

/// Of sizes by machines, each faster than the one before: by the objective among those in time and within the budgets;
/// else nearest to the budgets among those in time; else the fastest. In time are those that end by the deadline taking
/// `slow` times as long as predicted; where none does, those that are predicted to.
const PlanPoint* choose(const Plan& plan, double slow, const std::vector<const PlanPoint*>& sizes) {
  std::vector<const PlanPoint*> in_time, good;
  for (const double times : {slow, 1.0})
    if (in_time.empty())
      std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(in_time),
                   [&](const PlanPoint* p) { return ends(*p, times) <= plan.deadline; });
  std::copy_if(in_time.begin(), in_time.end(), std::back_inserter(good),
               [&](const PlanPoint* p) { return within_budgets(plan, *p); });
  if (!good.empty())
    return least(good, margin_of(plan.objective),
                 [&](const PlanPoint& p) { return objective_value(plan.objective, p); });
  if (!in_time.empty()) return least(in_time, kRounding, [&](const PlanPoint& p) { return over_budget(plan, p); });
  return sizes.empty() ? nullptr : sizes.back();
}

/// Sizes that nothing divides are no choice of anybody: large ones that are tried are multiples of it.
int unit_of(double machines) { return machines < 16 ? 1 : machines < 64 ? 4 : 8; }
int in_units(double machines) { return static_cast<int>(std::ceil(machines / unit_of(machines))) * unit_of(machines); }

std::string machines_text(int machines, int gpus) {
  return fmt::format("{} machine{} ({} GPU{})", with_commas(machines), machines == 1 ? "" : "s", with_commas(gpus),
                     gpus == 1 ? "" : "s");
}

class CountSearch {
 public:
  CountSearch(const Plan& plan, CandidateSite& site)
      : plan_(plan), site_(site), limit_(static_cast<int>(plan.max_gpus / site.facts.gpus)) {
    limited_by_ = fmt::format("max_gpus is {}", with_commas(plan.max_gpus));
    lower_limit(site.facts.most, fmt::format("network '{}' holds {} machine{}", site.facts.network,
                                             site.facts.most.value_or(0), site.facts.most == 1 ? "" : "s"));
    lower_limit(site.candidate.max_machines,
                fmt::format("max_machines is {}", site.candidate.max_machines.value_or(0)));
    if (site.candidate.network.empty())
      lower_limit(1, "the candidate names no network to join machines by (\"network\"; rehearse list networks)");
    if (site.range) slow_ = site.range(plan.base.strategy).quantile(plan.odds);
    // No time at all is left where the lead time is longer.
    days_ = max(plan.deadline * 1e-6, plan.deadline - Seconds{86400 * site.candidate.lead_days});
    floor_ = slow_ * (site.flops_per_token * plan.base.training.tokens / site.facts.peak / days_);
  }

  /// Tries what the objective needs: around the fewest in time, and for the fastest also up to the limit.
  void explore() {
    if (limit_ == 0) return;
    if (site_.facts.set) {
      if (*site_.facts.set <= limit_) (void)at(*site_.facts.set);
      return;
    }
    int around = fewest();
    if (around == 0) around = fastest_found();
    if (around == 0) return;
    add_curve(around);
    if (plan_.objective == PlanObjective::days) try_larger();
  }

  /// Looks harder at the size that is chosen and plays it, until the one chosen then was. A size that comes out slower
  /// than its closed form may be late; then larger ones are tried.
  void settle() {
    std::set<int> settled;
    for (int tried = 0; tried < kMostSettled; ++tried) {
      const PlanPoint* p = chosen();
      if (p == nullptr || stopped()) return;
      const int n = p->machines;
      if (!settled.insert(n).second) return;
      if (auto better = played_point(plan_, site_, n, evaluated_)) points_[n] = std::move(better);
      if (!site_.facts.set && !in_time(n) && n < limit_) (void)at(next_larger(n));
    }
  }

  /// The size that would be in time if speed grew evenly from this one.
  int next_larger(int n) {
    const double wanted = at(n) ? n * (at(n)->duration * slow_ / days_) : n + 1;
    return std::clamp(in_units(std::min<double>(wanted, limit_)), n + 1, limit_);
  }

  [[nodiscard]] const PlanPoint* chosen() const { return choose(plan_, slow_, frontier()); }

  /// The sizes that are worth having: each faster than all smaller ones, as machines beyond the best smaller size may
  /// stand idle.
  [[nodiscard]] std::vector<const PlanPoint*> frontier() const {
    std::vector<const PlanPoint*> out;
    for (const auto& [n, p] : points_)
      if (p && (out.empty() || p->duration < out.back()->duration)) out.push_back(&*p);
    return out;
  }

  [[nodiscard]] std::int64_t evaluated() const { return evaluated_; }
  [[nodiscard]] bool interrupted() const { return interrupted_; }

  /// Why no size runs.
  [[nodiscard]] std::string why_none() const {
    const int least = site_.facts.set.value_or(1), gpus = gpus_of(least);
    if (limit_ < least)
      return fmt::format("{} {} GPUs, {}: raise it", site_.facts.set ? "the set has" : "one machine has",
                         with_commas(gpus), limited_by_);
    if (why_not_.empty()) return "interrupted before any size was tried";
    const auto& [n, why] = *why_not_.find(first_);
    if (why_not_.size() == 1) return fmt::format("on {}: {}", machines_text(n, gpus_of(n)), why);
    return fmt::format("on {}: {}; nor on any other of {} sizes tried, from {} to {} machines",
                       machines_text(n, gpus_of(n)), why, why_not_.size(), with_commas(why_not_.begin()->first),
                       with_commas(why_not_.rbegin()->first));
  }

  /// Why no larger size than that is chosen.
  [[nodiscard]] std::string limited_by(int machines) const {
    const auto larger = why_not_.upper_bound(machines);
    if (larger == why_not_.end() || points_.rbegin()->second) return limited_by_;
    return fmt::format("{} do not run it: {}", machines_text(larger->first, gpus_of(larger->first)), larger->second);
  }

 private:
  void lower_limit(std::optional<int> to, std::string why) {
    if (site_.facts.set || !to || *to >= limit_) return;
    limit_ = *to;
    limited_by_ = std::move(why);
  }

  [[nodiscard]] int gpus_of(int machines) const { return static_cast<int>(std::lround(machines * site_.facts.gpus)); }
  [[nodiscard]] bool stopped() { return interrupted_ = interrupted_ || (site_.stop && site_.stop()); }

  const std::optional<PlanPoint>& at(int n) {
    static const std::optional<PlanPoint> none;
    if (const auto known = points_.find(n); known != points_.end()) return known->second;
    if (stopped()) return none;
    if (points_.empty()) first_ = n;
    std::string why;
    std::optional<PlanPoint> point = plan_point(plan_, site_, n, evaluated_, why);
    if (!point) why_not_[n] = std::move(why);
    const auto made = points_.emplace(n, std::move(point)).first;
    if (site_.progress) site_.progress(std::min(1.0, static_cast<double>(points_.size()) / kUsualSizes));
    return made->second;
  }

  /// The fewest machines that meet the deadline, 0 where none found does.
  int fewest() {
    const int meets = bracket();
    if (meets == 0) return 0;
    const int first = std::max({1, static_cast<int>(std::ceil(floor_)), static_cast<int>(std::ceil(1 / best_rate()))});
    for (int n = in_units(first), tried = 0; n < meets && tried < kMostScanned; n += unit_of(n), ++tried)
      if (in_time(n)) return n;
    return meets;
  }

  /// The machines of the fastest size, 0 where none found runs: of sizes near the limit, and where that does not run,
  /// as there may be too many GPUs to divide the work, of smaller ones.
  int fastest_found() {
    try_even_sizes();
    if (!points_.empty() && !points_.rbegin()->second) (void)largest([this](int n) { return at(n).has_value(); });
    return frontier().empty() ? 0 : frontier().back()->machines;
  }

  /// Just below the limit: the largest multiples of powers of two, which divide a batch better than the limit itself
  /// may.
  void try_even_sizes() {
    for (int unit = 1; unit <= limit_; unit *= 2) (void)at(limit_ / unit * unit);
  }

  /// From the limit down by halves to a size that is good, then closer to the next larger one from below; 0 where none
  /// of those is.
  template <typename Good>
  int largest(Good good) {
    int high = limit_ + 1, low = limit_;
    while (low > 0 && !good(low)) high = std::exchange(low, low / 2);
    for (int tried = 0; low > 0 && tried < kMostClosing && high - low > 1; ++tried) {
      const int middle = low + (high - low) / 2;
      (good(middle) ? low : high) = middle;
    }
    return low;
  }

  /// Up to the limit, or to the largest size within the budgets.
  void try_larger() {
    try_even_sizes();
    (void)largest([this](int n) { return at(n) && within_budgets(plan_, *at(n)); });
  }

  void add_curve(int around) {
    for (const double factor : kCurve) {
      const double wanted = around * factor, unit = factor == 1 ? 1 : unit_of(wanted);
      if (const int n = static_cast<int>(std::round(wanted / unit) * unit); n >= 1 && n <= limit_) (void)at(n);
    }
  }

  bool in_time(int n) { return at(n) && ends(*at(n), slow_) <= plan_.deadline; }

  /// Most of the whole run that one machine does within the deadline, over all sizes tried.
  [[nodiscard]] double best_rate() const {
    double out = 0;
    for (const auto& [n, p] : points_)
      if (p) out = std::max(out, days_ / (p->duration * slow_) / n);
    return out;
  }

  /// A size that meets the deadline and the next smaller one tried that doesn't, closed in on each other; 0 where the
  /// limit is reached first.
  int bracket() {
    int fails = static_cast<int>(std::min<double>(limit_, std::max(0.0, std::ceil(floor_) - 1))), meets = 0;
    int n = std::clamp(static_cast<int>(std::ceil(floor_ / kFirstGuess)), 1, limit_);
    for (int tried = 0; tried < kMostSizes; ++tried) {
      const std::optional<PlanPoint>& p = at(n);
      if (in_time(n))
        meets = n;
      else
        fails = std::max(fails, n);
      if (meets != 0 ? meets - fails <= 1 : n == limit_) break;
      const double guess = p ? n * (p->duration * slow_ / days_) : 2.0 * n;
      const int next = static_cast<int>(std::ceil(std::min<double>(guess, limit_)));
      if (meets == 0)
        n = std::clamp(in_units(next), n + 1, limit_);
      else
        n = next > fails && next < meets && tried % 3 != 2 ? next : fails + (meets - fails) / 2;
    }
    return meets;
  }

  const Plan& plan_;
  CandidateSite& site_;
  int limit_ = 0;
  std::string limited_by_;
  double slow_ = 1;   // What the prediction is multiplied by for the odds wanted.
  Seconds days_;      // From the first step to the deadline.
  double floor_ = 0;  // Machines at peak, without failures.
  int first_ = 0;     // The size tried first.
  std::map<int, std::optional<PlanPoint>> points_;
  std::map<int, std::string> why_not_;  // Of sizes that do not run.
  std::int64_t evaluated_ = 0;
  bool interrupted_ = false;
};

std::string missed(const Plan& plan, const CandidateAnswer& a, const std::string& limited_by) {
  std::string out;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  const PlanPoint& p = *a.point;
  if (!a.meets_deadline)
    add(fmt::format(
        "takes {:.1f} days{} instead of {:g} on {}, the fastest size found; no more than that can be had: {}",
        in_days(p.end), a.candidate.lead_days > 0 ? " from the order" : "", in_days(plan.deadline),
        machines_text(p.machines, p.gpus), limited_by));
  if (plan.budget && p.cost.parts.total() > *plan.budget)
    add(fmt::format("costs {} of a budget of {}", money(p.cost.parts.total()), money(*plan.budget)));
  if (plan.annual_budget && p.cost.a_year > *plan.annual_budget)
    add(fmt::format("costs {} in its first year of an annual budget of {}", money(p.cost.a_year),
                    money(*plan.annual_budget)));
  if (plan.capital_budget && p.cost.capital > *plan.capital_budget)
    add(fmt::format("needs {} at once of a capital budget of {}", money(p.cost.capital), money(*plan.capital_budget)));
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
  sizes.settle();
  const PlanPoint* chosen = sizes.chosen();
  out.evaluated = sizes.evaluated();
  out.interrupted = sizes.interrupted();
  if (chosen == nullptr) {
    out.why_not = sizes.why_none();
    return out;
  }
  out.point = *chosen;
  out.meets_deadline = chosen->end <= plan.deadline;
  if (site.range) out.range = site.range(out.point->step.strategy);
  out.peak = site.peak;
  for (const PlanPoint* p : sizes.frontier()) out.curve.push_back(*p);
  out.meets_deadline_high = ends(*out.point, out.range.quantile(plan.odds)) <= plan.deadline;
  out.odds_late = out.range.odds_above(std::max(1e-9, 1 + (plan.deadline - out.point->end) / out.point->duration));
  out.swings = swings(plan, site, *out.point, out.range);
  out.meets_budget = within_budgets(plan, *out.point);
  out.why_not = missed(plan, out, sizes.limited_by(chosen->machines));
  return out;
}

}  // namespace rehearse
