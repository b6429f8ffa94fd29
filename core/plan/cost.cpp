#include "core/plan/cost.hpp"

#include "core/plan/plan_words.hpp"

namespace rehearse {

namespace {

constexpr double kDaysPerYear = 365.25;

}  // namespace

RunCost run_cost(const MachinePrice& price, const Economics& e, const RunExtent& x) {
  RunCost out;
  const double machines = x.machines + x.spares;
  const Joules drawn = x.rated * x.duration * (x.machines * e.power_share * (1 + e.network_power_share));
  out.energy = drawn * e.pue;
  if (x.rented) {
    out.parts.rental = price.rental.value_or(Dollars{0}) * (machines * x.gpus_per_machine * in_hours(x.duration));
    return out;
  }
  const double share = in_days(x.duration) / (e.amortisation_years * kDaysPerYear * e.utilisation);
  const Dollars purchase = price.purchase.value_or(Dollars{0}) * machines,
                network = price.network.value_or(Dollars{0}) * machines;
  out.capital = purchase + network;
  out.parts.purchase = purchase * share;
  out.parts.network = network * share;
  out.parts.power = e.electricity * in_kwh(drawn);
  out.parts.cooling = out.parts.power * (e.pue - 1);
  return out;
}

}  // namespace rehearse
