#pragma once
// From JSON to specs. The formats are described in topologies/README.md; `origin` names the file in errors, `id` is its
// name without ".json". Every function throws Error (usage) with the file and the JSON path of what is wrong: an
// unknown key, a missing unit, a figure without a source, wiring that the parts cannot have.

#include <functional>
#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/hardware/collective_constants.hpp"
#include "core/hardware/interconnects.hpp"
#include "core/hardware/specs.hpp"

namespace rehearse {

[[nodiscard]] Interconnects read_interconnects(const nlohmann::json& file, const std::string& origin);

[[nodiscard]] GpuSpec read_gpu(const nlohmann::json& file, const std::string& origin, const std::string& id,
                               const Interconnects& interconnects);

using GpuLookup = std::function<std::shared_ptr<const GpuSpec>(const std::string& id)>;
/// The machine with its wiring expanded to vertices and links. `gpu` finds the GPU that the file names.
[[nodiscard]] MachineSpec read_machine(const nlohmann::json& file, const std::string& origin, const std::string& id,
                                       const Interconnects& interconnects, const GpuLookup& gpu);

[[nodiscard]] NetworkSpec read_network(const nlohmann::json& file, const std::string& origin, const std::string& id);

/// Reads topologies/collectives/GENERATION.json (schema rehearse/collective_constants/v1, described in
/// topologies/README.md). Throws Error (usage) with the JSON path of what is wrong.
[[nodiscard]] CollectiveConstants read_collective_constants(const nlohmann::json& file, const std::string& origin,
                                                            const std::string& generation);

class ObjectReader;
/// The group "collectives" of a network file, and "across" of a generation's; every key is optional. The caller cites
/// and finishes it.
[[nodiscard]] NetworkCollectives read_network_collectives(ObjectReader& group);

[[nodiscard]] ClusterSpec read_cluster(const nlohmann::json& file, const std::string& origin, const std::string& id);

}  // namespace rehearse
