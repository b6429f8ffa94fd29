#pragma once
// The file of a shared cluster and its jobs, `rehearse/fleet/v1` (README.md lists its keys).
//
//   const Fleet f = load_fleet("fleet.json", {"policy.rule=easy"}, catalogue);

#include <string>
#include <string_view>
#include <vector>

#include "core/fleet/fleet.hpp"
#include "core/hardware/catalogue.hpp"

namespace rehearse::fleet {

inline constexpr std::string_view kFleetSchema = "rehearse/fleet/v1";

/// Reads a fleet; `overrides` are "policy.rule=easy". Files that it names lie relative to `origin`. Machines and
/// clusters are those of the catalogue. Throws Error (usage) with the place, what was found and what is valid; does not
/// check what check_fleet does.
[[nodiscard]] Fleet parse_fleet(std::string_view text, const std::string& origin,
                                const std::vector<std::string>& overrides, const Catalogue& catalogue);
[[nodiscard]] Fleet load_fleet(const std::string& path, const std::vector<std::string>& overrides,
                               const Catalogue& catalogue);

}  // namespace rehearse::fleet
