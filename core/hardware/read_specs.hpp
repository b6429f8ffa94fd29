#pragma once
// From JSON to specs. The formats are described in topologies/README.md; `origin` names the file in errors, `id` is its
// name without ".json". Every function throws Error (usage) with the file and the JSON path of what is wrong: an unknown
// key, a missing unit, a figure without a source, wiring that the parts cannot have.

#include <functional>
#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/hardware/interconnects.hpp"
#include "core/hardware/specs.hpp"

namespace rehearse {

[[nodiscard]] GpuSpec read_gpu(const nlohmann::json& file, const std::string& origin, const std::string& id,
                               const Interconnects& interconnects);

using GpuLookup = std::function<std::shared_ptr<const GpuSpec>(const std::string& id)>;
/// The machine with its wiring expanded to vertices and links. `gpu` finds the GPU that the file names.
[[nodiscard]] MachineSpec read_machine(const nlohmann::json& file, const std::string& origin, const std::string& id,
                                       const Interconnects& interconnects, const GpuLookup& gpu);

[[nodiscard]] NetworkSpec read_network(const nlohmann::json& file, const std::string& origin, const std::string& id);

[[nodiscard]] ClusterSpec read_cluster(const nlohmann::json& file, const std::string& origin, const std::string& id);

}  // namespace rehearse
