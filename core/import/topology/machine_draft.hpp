#pragma once
// A machine as importers find it, and its file.

#include <optional>
#include <string>
#include <vector>

#include "core/hardware/specs.hpp"

namespace rehearse {

struct MachineDraft {
  struct Slot {
    int generation = 0;
    int lanes = 16;
    bool operator==(const Slot&) const = default;
  };
  /// What something hangs on.
  struct Parent {
    bool is_switch = false;  ///< Else a CPU.
    int index = 0;
  };
  struct Cpu {
    int numa = 0;
    std::string cores;  ///< "0-23,96-119"; may be empty.
  };
  struct Switch {
    Parent parent;
    Slot uplink;
    int host_bridge = -1;  ///< Right below a CPU: see MachineSpec::Link::host_bridge.
  };
  struct Device {
    Parent parent;
    Slot slot;
    int host_bridge = -1;
    std::string device;  ///< NIC: "mlx5_0".
  };
  struct NvlinkPair {
    int a, b, count;
  };
  struct C2c {
    int gpu, cpu;
    BytesPerSecond rate;
  };

  std::string name;
  std::string gpu;  ///< GpuSpec id.
  std::string cpu_model;
  std::string cpu_vendor;
  std::string socket_link;  ///< Entry of interconnects.json; empty for one CPU.
  std::vector<Cpu> cpus;
  std::vector<Switch> switches;
  std::vector<Device> gpus, nics;
  std::vector<NvlinkPair> nvlink_pairs;
  std::vector<int> nvswitch_links;  ///< Per GPU: NVLinks to the NVSwitches; empty without.
  int nvswitch_chips = 1;
  std::vector<C2c> c2c;
  std::vector<std::pair<int, int>> switch_links;  ///< PCIe switches joined to each other, beside the tree.
  bool nic_devices_are_names = false;             ///< NICs are called by their device ("mlx5_0") and not "NIC0".
  std::string nic_name;
  BytesPerSecond nic_rate;
  bool gpudirect_rdma = true;
  std::optional<bool> peer_to_peer;  ///< Absent: as the GPU model has it.
  bool nvls = false;
  std::string source;  ///< Where all figures come from.
  std::vector<std::string> notes;
};

/// The machine file (rehearse/machine/v1).
[[nodiscard]] std::string machine_json(const MachineDraft& draft);

/// A cluster file (rehearse/cluster/v1) of `nodes` such machines; `machine_file` is the path of the machine file as the
/// cluster file shall name it.
[[nodiscard]] std::string cluster_json(const std::string& name, const std::string& machine_file, int nodes,
                                       const std::string& network, const std::string& source);

}  // namespace rehearse
