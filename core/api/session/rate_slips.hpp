#pragma once
// Rates that look like a slip between bits and bytes: a NIC of 400 GB/s where 400 Gb/s are sold.

#include <string>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/config/scenario.hpp"
#include "core/hardware/catalogue.hpp"

namespace rehearse {

/// One line for each rate of the cluster's machines and network that no entry of the catalogue has, while eight times
/// as much or an eighth of it is a rate of the same kind of wire there; and for a storage rate that a node's NICs could
/// not carry, while an eighth of it they could. The lines name the machine or network and say what was probably meant.
/// Entries of the catalogue itself are not judged.
[[nodiscard]] std::vector<std::string> rate_slips(const Catalogue& catalogue, const Cluster& cluster,
                                                  const Scenario& scenario);

/// The same of one rate among `known` ones: the rate that was probably meant, or 0 where nothing is odd. Rates within
/// 2 % of each other are one.
[[nodiscard]] BytesPerSecond meant_rate(BytesPerSecond rate, const std::vector<BytesPerSecond>& known);

}  // namespace rehearse
