#pragma once
// A shared cluster's queues, quotas and jobs as manifests of Kubernetes, so that what was tried can be applied. A
// target is one file in this folder.

#include <functional>

#include "core/base/registry.hpp"
#include "core/export/export.hpp"
#include "core/fleet/fleet.hpp"

namespace rehearse {

/// Manifests are JSON, which kubectl reads as it reads YAML. What the target has no word for is in `left_out`.
using FleetExporter = std::function<Exported(const fleet::Fleet&)>;
/// "kueue", "kai".
[[nodiscard]] Registry<FleetExporter>& fleet_exporters();

}  // namespace rehearse
