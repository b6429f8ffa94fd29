#pragma once
// What is gathered from files before it becomes a fleet. Private to this folder.

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/import/fleet/import_fleet.hpp"

namespace rehearse::fleet_import {

using nlohmann::ordered_json;

struct Draft {
  std::vector<ordered_json> pools, queues, jobs;  ///< As rehearse/fleet/v1 has them.
  std::vector<std::string> notes;
  std::string quota;  ///< Of the policy, where the files say whose rules hold.
};

[[nodiscard]] bool is_sacct(std::string_view text);
void read_sacct(const FleetFile& file, Draft& to);

/// All files at once: objects name each other.
void read_manifests(const std::vector<FleetFile>& files, const FleetImportOptions& options, Draft& to);

}  // namespace rehearse::fleet_import
