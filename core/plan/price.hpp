#pragma once
// What a machine costs: files under topologies/prices (schema rehearse/price/v1, described in topologies/README.md),
// one per machine, named by its id. Every figure has a date and a source; a plan may put its own in their place.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/hardware/specs.hpp"

namespace rehearse {

/// Where one figure comes from.
struct PriceSource {
  std::string figure;  ///< "purchase", "network", "rental", "power".
  std::string date;    ///< "2026-03": when the price was seen; empty where the plan gives none.
  std::string text;
  Evidence evidence = Evidence::estimate;
};

struct MachinePrice {
  std::optional<Dollars> purchase;  ///< One machine.
  std::optional<Dollars> network;   ///< One machine's share of switches, cables and optics; absent counts as nothing.
  std::optional<Dollars> rental;    ///< One GPU for one hour, network included.
  std::optional<Watts> power;       ///< Rated maximum of one machine, in place of the machine file's.
  std::vector<PriceSource> sources;
};

/// The price of machine `id`; without figures where `folder` has no file of it. Throws Error (usage) with file and JSON
/// path of what is wrong.
[[nodiscard]] MachinePrice load_price(const std::filesystem::path& folder, const std::string& id);

/// Machines of one kind.
struct PricedMachines {
  MachinePrice price;
  double machines = 1, gpus = 1;  ///< Of all of them.
};
/// Of a mixed set, one machine on average, and one GPU's rental: of each figure the mean, where all machines have it.
/// Sources are those of all.
[[nodiscard]] MachinePrice mean_price(const std::vector<PricedMachines>& set);

/// `base`, with the figures that `over` has in place of its own.
[[nodiscard]] MachinePrice overridden(MachinePrice base, const MachinePrice& over);

}  // namespace rehearse
