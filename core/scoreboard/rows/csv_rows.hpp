#pragma once
// CSV measurement files.

#include "core/scoreboard/rows/measurement.hpp"

namespace rehearse {

/// As parse_measurements, for CSV text without its byte-order mark.
[[nodiscard]] std::vector<Measurement> parse_csv_measurements(std::string_view text, const std::string& name);

}  // namespace rehearse
