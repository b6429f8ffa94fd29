// What moves the cost of a plan most: one figure at a time, at the size that was chosen.

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "core/plan/candidate.hpp"
#include "core/plan/plan_words.hpp"

namespace rehearse {

namespace {

/// Prices of quotes and of catalogues differ by about as much.
constexpr double kPriceSwing = 0.2;
/// Failure rates of fleets differ by more than that; electricity of regions too.
constexpr double kTwofold = 2;
constexpr double kLeastUse = 0.6, kMostUse = 0.95, kLeastInterest = 0.04, kMostInterest = 0.12;

class Swinging {
 public:
  Swinging(Plan plan, CandidateSite& site, const PlanPoint& point)
      : plan_(std::move(plan)), site_(site), point_(point) {}

  /// The cost after `change`, which is undone.
  Dollars cost(const std::function<void(Swinging&)>& change) {
    const MachinePrice price = site_.price;
    const ReliabilityProfile reliability = site_.reliability;
    const Economics economics = plan_.economics;
    step_ = point_.step;
    change(*this);
    const Dollars out = plan_point(plan_, site_, point_.machines, step_).cost.parts.total();
    site_.price = price;
    site_.reliability = reliability;
    plan_.economics = economics;
    return out;
  }

  void add(std::string what, std::string from, std::string to, const std::function<void(Swinging&, int)>& change) {
    Swing s{std::move(what), std::move(from), std::move(to), {}, {}};
    s.cost_from = cost([&](Swinging& self) { change(self, 0); });
    s.cost_to = cost([&](Swinging& self) { change(self, 1); });
    out_.push_back(std::move(s));
  }

  std::vector<Swing> run(const StepRange& range) {
    const double low = range.low, high = range.high;
    if (low < high)
      add("step time (MFU)", fmt::format("{:.3g} s", point_.step.step_time.value() * low),
          fmt::format("{:.3g} s", point_.step.step_time.value() * high),
          [=](Swinging& s, int end) { s.step_.step_time = s.step_.step_time * (end == 0 ? low : high); });
    add_price();
    if (!site_.rented) add_ownership();
    add("failures", "half as many", "twice as many", [](Swinging& s, int end) {
      for (Seconds& time : s.site_.reliability.times.of) time = time * (end == 0 ? kTwofold : 1 / kTwofold);
    });
    std::stable_sort(out_.begin(), out_.end(), [](const Swing& a, const Swing& b) { return a.width() > b.width(); });
    std::erase_if(out_, [](const Swing& s) { return s.width() <= Dollars{0}; });
    return std::move(out_);
  }

 private:
  void add_price() {
    std::optional<Dollars>& price = site_.rented ? site_.price.rental : site_.price.purchase;
    if (!price) return;
    const auto text = [&](double times) { return money(*price * times); };
    add(site_.rented ? "rent of a GPU hour" : "price of a machine", text(1 - kPriceSwing), text(1 + kPriceSwing),
        [](Swinging& s, int end) {
          std::optional<Dollars>& p = s.site_.rented ? s.site_.price.rental : s.site_.price.purchase;
          p = *p * (end == 0 ? 1 - kPriceSwing : 1 + kPriceSwing);
        });
  }

  void add_ownership() {
    const auto percent_text = [](double share) { return fmt::format("{:.0f} %", 100 * share); };
    add("utilisation", percent_text(kMostUse), percent_text(kLeastUse),
        [](Swinging& s, int end) { s.plan_.economics.utilisation = end == 0 ? kMostUse : kLeastUse; });
    add("cost of capital", percent_text(kLeastInterest), percent_text(kMostInterest),
        [](Swinging& s, int end) { s.plan_.economics.cost_of_capital = end == 0 ? kLeastInterest : kMostInterest; });
    add("worth at the end", percent_text(0.3), percent_text(0),
        [](Swinging& s, int end) { s.plan_.economics.residual_share = end == 0 ? 0.3 : 0; });
    const Economics& e = plan_.economics;
    add("electricity", to_string(e.electricity / kTwofold, 2) + " a kWh",
        to_string(e.electricity * kTwofold, 2) + " a kWh", [](Swinging& s, int end) {
          Dollars& price = s.plan_.economics.electricity;
          price = end == 0 ? price / kTwofold : price * kTwofold;
        });
    add("colocation", to_string(e.colocation * (1 - kPriceSwing), 3) + " a kW",
        to_string(e.colocation * (1 + kPriceSwing), 3) + " a kW", [](Swinging& s, int end) {
          Dollars& price = s.plan_.economics.colocation;
          price = price * (end == 0 ? 1 - kPriceSwing : 1 + kPriceSwing);
        });
  }

  Plan plan_;
  CandidateSite& site_;
  const PlanPoint& point_;
  StepChoice step_;
  std::vector<Swing> out_;
};

}  // namespace

std::vector<Swing> swings(const Plan& plan, CandidateSite& site, const PlanPoint& point, const StepRange& range) {
  return Swinging(plan, site, point).run(range);
}

}  // namespace rehearse
