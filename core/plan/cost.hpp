#pragma once
// What a run costs in money and energy.

#include "core/base/units.hpp"
#include "core/plan/price.hpp"

namespace rehearse {

/// What holds for every candidate; the user's to change.
struct Economics {
  /// Years over which a purchase is written off, evenly. Estimate: four to six years are usual in the books of cloud
  /// providers.
  double amortisation_years = 4;
  /// Share of those years in which the machines do paid work: the run bears the idle time too. Meta's research clusters
  /// were busy 80 % of the time and more (Kokolis et al. 2024).
  double utilisation = 0.8;
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

struct CostParts {
  Dollars purchase;  ///< The run's share of the machines, spares included.
  Dollars power;     ///< Electricity of machines and network.
  Dollars cooling;   ///< Electricity of the rest of the site: (pue - 1) of the above.
  Dollars network;   ///< The run's share of switches, cables and optics.
  Dollars rental;    ///< In place of all others.
  [[nodiscard]] Dollars total() const { return purchase + power + cooling + network + rental; }
};

struct RunCost {
  CostParts parts;
  Dollars capital;  ///< To be paid before the first step: machines, spares and network; 0 where they are rented.
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

/// purchase = price (machines + spares) duration / (amortisation_years utilisation), the network likewise; energy =
/// machines rated power_share (1 + network_power_share) pue duration; rental = GPUs of machines and spares, by the
/// hour. `price` has the figures that are needed.
[[nodiscard]] RunCost run_cost(const MachinePrice& price, const Economics& economics, const RunExtent& extent);

}  // namespace rehearse
