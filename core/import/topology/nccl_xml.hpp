#pragma once
// NCCL's own files: the topology it found (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE) and the channels it chose
// (NCCL_GRAPH_DUMP_FILE). The elements are those of graph/xml.cc of NCCL 2.28.9.

#include <string>
#include <vector>

#include "core/hardware/catalogue.hpp"
#include "core/import/topology/import_topology.hpp"
#include "core/import/topology/machine_draft.hpp"
#include "core/import/topology/xml.hpp"

namespace rehearse {

/// Everything but the sources of a machine. Rates follow the stated PCIe speeds and widths as NCCL reads them (an
/// unknown speed is generation 3, no width is 16 lanes). The GPU is options.gpu, or the model that the PCI device id
/// belongs to. Throws Error (usage), `where` "origin:line": no GPUs (templates of clouds), AMD's dialect (version 2,
/// xgmi), NVLinks that GPUs state but not the model has, none where the model has some and options do not say where
/// they go, sizes beyond a machine.
[[nodiscard]] MachineDraft draft_of_nccl_topology(const XmlElement& system, const std::string& origin,
                                                  const ImportOptions& options, const Catalogue& catalogue);

/// The GPU model of the file: options.gpu, else by PCI device id. Throws Error (usage) where neither says it.
[[nodiscard]] std::string gpu_of_nccl_topology(const XmlElement& system, const std::string& origin,
                                               const ImportOptions& options, const Catalogue& catalogue);

/// The graphs of a <graphs> element. Throws Error (usage) for numbers out of range and patterns that NCCL does not
/// have.
[[nodiscard]] std::vector<MachineSpec::NcclGraph> read_nccl_graphs(const XmlElement& graphs, const std::string& origin);

}  // namespace rehearse
