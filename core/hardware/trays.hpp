#pragma once
// A machine of several trays: hosts of their own, joined by nothing but NVSwitches.

#include "core/hardware/specs.hpp"

namespace rehearse {

/// Takes `machine`, read as one tray, to `trays` equal ones. NVSwitches stay single and gain the NVLinks of every tray;
/// all other vertices and links are repeated. Vertices keep the order GPUs, NVSwitches, PCIe switches, CPUs, NICs;
/// those of tray t named "GPU0", "NIC2", ... are counted on, others become "NAME.t". Throws nothing; 1 tray changes
/// nothing.
void repeat_trays(MachineSpec& machine, int trays);

}  // namespace rehearse
