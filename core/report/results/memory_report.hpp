#pragma once
// How peak memory per pipeline stage is shown: blocks, JSON and records.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/price/stage_memory.hpp"
#include "core/report/formats/document.hpp"

namespace rehearse {

/// Table of stages and categories, where the tightest peak stands, the rule, and the suggestion.
[[nodiscard]] std::vector<DocumentBlock> memory_blocks(const MemoryReport& report);
/// The array `memory` of JSON results: {stage, rank, peak_bytes, allocated_bytes, reserved_bytes, needed_bytes,
/// capacity_bytes, peak_at, by_category{}}.
[[nodiscard]] nlohmann::ordered_json memory_json(const MemoryReport& report);
/// {stage, needed_bytes_p10, needed_bytes_p90, rows, sources, rests_on} of the stage nearest to its capacity, or null.
[[nodiscard]] nlohmann::ordered_json memory_range_json(const MemoryReport& report);
/// {changes, needed_bytes, step_time_s} or null.
[[nodiscard]] nlohmann::ordered_json suggestion_json(const MemoryReport& report);
/// One record per stage.
[[nodiscard]] Table memory_records(const MemoryReport& report);

}  // namespace rehearse
