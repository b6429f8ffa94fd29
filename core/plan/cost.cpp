#include "core/plan/cost.hpp"

#include <cmath>

#include "core/plan/plan_words.hpp"

namespace rehearse {

namespace {

constexpr double kDaysPerYear = 365.25, kMonths = 12;

Joules drawn_in(const Economics& e, Watts rated, double machines, Seconds duration) {
  return rated * duration * (machines * e.power_share * (1 + e.network_power_share));
}

/// Of a machine with its share of network and storage.
Dollars price_of_one(const MachinePrice& price, const Economics& e) {
  const Dollars machine = price.purchase.value_or(Dollars{0});
  return machine * (1 + e.storage_share) + price.network.value_or(Dollars{0});
}

}  // namespace

double yearly_share(const Economics& e) {
  const double k = e.cost_of_capital, years = e.amortisation_years;
  if (k <= 0) return (1 - e.residual_share) / years;
  const double grown = std::pow(1 + k, years);
  return (1 - e.residual_share / grown) * k / (1 - 1 / grown);
}

RunCost run_cost(const MachinePrice& price, const Economics& e, const RunExtent& x) {
  RunCost out;
  const double machines = x.machines + x.spares;
  const Joules drawn = drawn_in(e, x.rated, x.machines, x.duration);
  const double years = in_days(x.duration) / kDaysPerYear, first_year = years > 1 ? 1 / years : 1;
  out.energy = drawn * e.pue;
  if (x.rented) {
    out.parts.rental = price.rental.value_or(Dollars{0}) * (machines * x.gpus_per_machine * in_hours(x.duration));
    out.a_year = out.parts.rental * first_year;
    return out;
  }
  const double borne = years / e.utilisation, share = yearly_share(e) * borne;
  const Dollars purchase = price.purchase.value_or(Dollars{0}) * machines,
                network = price.network.value_or(Dollars{0}) * machines;
  out.capital = price_of_one(price, e) * machines;
  out.parts.purchase = purchase * share;
  out.parts.network = network * share;
  out.parts.storage = purchase * (e.storage_share * share);
  out.parts.site = e.colocation * (x.rated.value() / 1e3 * machines * kMonths * borne);
  out.parts.staff = e.staff * (machines * borne);
  out.parts.power = e.electricity * in_kwh(drawn);
  out.parts.cooling = out.parts.power * (e.pue - 1);
  out.a_year = out.parts.total() * first_year;
  return out;
}

std::optional<double> break_even_months(const MachinePrice& price, const Economics& e, double gpus_per_machine,
                                        Watts rated, Dollars rent) {
  const Seconds month{kDaysPerYear / kMonths * 86400};
  const Dollars rented = rent * (gpus_per_machine * in_hours(month) * e.utilisation);
  const Dollars energy = e.electricity * (in_kwh(drawn_in(e, rated, 1, month)) * e.pue * e.utilisation);
  const Dollars running = energy + e.colocation * (rated.value() / 1e3) + e.staff / kMonths;
  if (rented <= running) return {};
  return price_of_one(price, e) / (rented - running);
}

}  // namespace rehearse
