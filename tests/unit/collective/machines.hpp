#pragma once
// Machines whose recorded searches the tests compare with, built from their published wiring.

#include <memory>
#include <string>

#include "core/cluster/cluster.hpp"

namespace machines {

struct Machine {
  std::shared_ptr<const rehearse::MachineSpec> spec;
  std::shared_ptr<const rehearse::GpuSpec> gpu;
};

/// "dgx1v", "dgx_a100", "p4d", "dgx_h100", "dgx_b200".
Machine make(const std::string& id);

/// `nodes` such machines on one non-blocking switch.
rehearse::Cluster cluster(const std::string& id, int nodes);

}  // namespace machines
