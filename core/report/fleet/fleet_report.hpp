#pragma once
// What a shared cluster did, as a document.

#include <string>
#include <vector>

#include "core/fleet/result.hpp"
#include "core/report/formats/document.hpp"

namespace rehearse {

inline constexpr const char* kFleetResultSchema = "rehearse/fleet_result/v1";

/// A fleet that was played, with a name where several stand side by side ("as stated", "with policy.rule=easy").
struct PlayedFleet {
  std::string label;
  const fleet::Fleet* fleet;
  const fleet::FleetResult* result;
};

/// Where GPU-hours went, queues against what they are guaranteed, why jobs waited, and those that waited longest. Of
/// two fleets also the differences. JSON of one: `cluster`, `policy`, `account{}` (GPU-seconds; they add up to
/// `capacity`), `queues[{name, guaranteed, held_gpus, asked_gpus, jobs, wait_*_s, samples[]}]`, `jobs[{name, queue,
/// gpus, state, arrival_s, started_s, finished_s, waiting_s, waited_s{}, preemptions, after}]`; of two, `fleets[]` of
/// such objects.
[[nodiscard]] Document fleet_document(const std::vector<PlayedFleet>& fleets, const std::string& program_version);

}  // namespace rehearse
