#pragma once
// What a run costs in money and energy.

#include <optional>

#include "core/base/units.hpp"
#include "core/plan/price.hpp"

namespace rehearse {

/// What holds for every candidate; the user's to change.
struct Economics {
  /// Years over which a purchase is used, and paid off. Estimate: four to six years are usual in the books of cloud
  /// providers.
  double amortisation_years = 4;
  /// Share of those years in which the machines do paid work: the run bears the idle time too. Meta's research clusters
  /// were busy 80 % of the time and more (Kokolis et al. 2024).
  double utilisation = 0.8;
  /// What machines are worth at their end, over their price. 0..1. Estimate: a page on the market says 25 to 35 % for
  /// an H100 machine after three years (v2-pseo-ai.pages.dev, GPU TCO analysis, 2026); books that write off over four
  /// to six years leave nothing.
  double residual_share = 0.15;
  /// A year's interest on what is tied up: of debt and of equity, as the buyer counts. Estimate: sixteen
  /// industries of the United States that were read, advertising to chemicals, have 5.0 to 9.4 % (Damodaran, cost of
  /// capital by sector, January 2026).
  double cost_of_capital = 0.08;
  /// Storage for data and checkpoints: its price over the machines'. Estimate.
  double storage_share = 0.05;
  /// A kW of rated power in somebody's data centre for a month, electricity apart. CBRE's average asking rate for 250
  /// to 500 kW in primary North American markets in the second half of 2025, as worldstopdatacenters.com reports it. 0
  /// for a building of one's own.
  Dollars colocation{196};
  /// People who run one machine for a year. Estimate: one of $250,000 a year for a hundred machines.
  Dollars staff{2500};
  /// One kWh. Estimate: industrial rate in mid-2026.
  Dollars electricity{0.08};
  /// Power usage effectiveness: energy of the whole site over that of its machines, 1 or more. Estimate: new sites
  /// reach 1.2, the mean of Uptime Institute's survey of 2023 is 1.58.
  double pue = 1.3;
  /// Average draw in training over the rated maximum. Computationally intensive training drew 76 % of the 10.2 kW of an
  /// 8-GPU H100 machine (Newkirk et al. 2025, arXiv:2506.14551).
  double power_share = 0.76;
  /// Draw of switches and optics over that of the machines. Estimate.
  double network_power_share = 0.05;
};

/// What one dollar of purchase costs a year over its life, less what is left of it at the end (the annuity of capital
/// recovery):
///   (1 - r / (1 + k)^Y) k / (1 - (1 + k)^-Y), and (1 - r) / Y for k = 0
/// with Y = amortisation_years, r = residual_share, k = cost_of_capital.
[[nodiscard]] double yearly_share(const Economics& economics);

struct CostParts {
  Dollars purchase;  ///< The run's share of the machines, spares included, with interest and less what is left of them.
  Dollars power;     ///< Electricity of machines and network.
  Dollars cooling;   ///< Electricity of the rest of the site: (pue - 1) of the above.
  Dollars network;   ///< The same of switches, cables and optics.
  Dollars storage;   ///< The same of storage.
  Dollars site;      ///< Colocation.
  Dollars staff;
  Dollars rental;  ///< In place of all others.
  [[nodiscard]] Dollars total() const { return purchase + power + cooling + network + storage + site + staff + rental; }
};

struct RunCost {
  CostParts parts;
  Dollars capital;  ///< To be paid before the first step: machines, spares, network, storage; 0 where they are rented.
  Dollars a_year;   ///< Of the parts, what falls into the first year: all of them in a shorter run.
  Joules energy;    ///< Of the site, rented or not.
};

/// How much of what, for how long.
struct RunExtent {
  int machines = 1;
  int spares = 0;  ///< Bought or rented, and switched off until needed.
  double gpus_per_machine = 1;
  Watts rated;  ///< Maximum of one machine.
  Seconds duration;
  bool rented = false;
};

/// With y = duration / (year utilisation), the years of which the run bears the whole:
///   purchase = price (machines + spares) yearly_share y, network and storage likewise
///   site = colocation rated (machines + spares) 12 y, staff = staff (machines + spares) y
///   energy = machines rated power_share (1 + network_power_share) pue duration
///   rental = GPUs of machines and spares, by the hour
/// `price` has the figures that are needed.
[[nodiscard]] RunCost run_cost(const MachinePrice& price, const Economics& economics, const RunExtent& extent);

/// Months of use after which a machine has paid for itself: what renting its GPUs at `rent` for an hour would have cost
/// by then, at the same utilisation, is what was paid for machine, network and storage, and for running it. Nothing
/// where running it costs as much as renting. `rated`: maximum of one machine.
[[nodiscard]] std::optional<double> break_even_months(const MachinePrice& price, const Economics& economics,
                                                      double gpus_per_machine, Watts rated, Dollars rent);

}  // namespace rehearse
