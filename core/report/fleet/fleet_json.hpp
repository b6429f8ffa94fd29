#pragma once
// Private to this folder.

#include <nlohmann/json_fwd.hpp>

#include "core/report/fleet/fleet_report.hpp"

namespace rehearse::fleet_report {

/// One played fleet, as fleet_document says.
[[nodiscard]] nlohmann::ordered_json fleet_json(const PlayedFleet& p);

}  // namespace rehearse::fleet_report
