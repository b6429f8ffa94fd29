#pragma once
// The vertices and links of a machine while its file is read: names become indices, technologies become rates.

#include <map>
#include <string>
#include <vector>

#include "core/config/object_reader.hpp"
#include "core/hardware/interconnects.hpp"
#include "core/hardware/specs.hpp"

namespace rehearse {

/// PCIe generation and lanes of a slot.
struct PcieSlot {
  int generation = 0;
  int lanes = 16;
};

/// What links are made of unless they say otherwise.
struct WiringDefaults {
  PcieSlot slot;
  PcieSlot nic_slot;
  std::string socket_link;               ///< Entry of interconnects.json; empty where the file names none.
  std::vector<std::string> nic_names;    ///< One per NIC, in place of "NIC0", "NIC1", ...; or empty.
  std::vector<std::string> nic_devices;  ///< One per NIC: its name in the driver; or empty.
};

/// [[0, 1], [2]]: rows of whole numbers of any length; nothing where the key is absent. Throws Error (usage) for
/// anything else.
[[nodiscard]] std::vector<std::vector<int>> whole_number_rows(ObjectReader& group, const std::string& key);

class Wiring {
 public:
  Wiring(MachineSpec& machine, const GpuSpec& gpu, const Interconnects& interconnects, WiringDefaults defaults)
      : machine_(machine), gpu_(gpu), interconnects_(interconnects), defaults_(std::move(defaults)) {}

  /// Reads the "wiring" group and appends its vertices (GPUs, NVSwitches, PCIe switches, CPUs, NICs, in this order) and
  /// links. Throws Error (usage) for a vertex that is not there, a link to itself, or more NVLinks than the GPU has.
  void read(ObjectReader& group);

 private:
  using Kind = MachineSpec::VertexKind;
  using Readers = std::vector<ObjectReader>;

  void add_vertex(const ObjectReader& at, Kind kind, const std::string& name, int chips = 1);
  Readers add_vertices(ObjectReader& group, const std::string& key, Kind kind, const std::string& prefix,
                       int least = 0);

  void read_nvlink_pairs(ObjectReader& group);
  void read_nvswitch(ObjectReader& entry, int vertex);
  void read_pcie_switch(ObjectReader& entry, int vertex);
  void read_cpu(ObjectReader& entry, int vertex);
  void read_host_bridges(ObjectReader& cpu, int vertex);
  /// A device that is a socket reaches its CPU's root ports at the rate of its memory.
  void attach_cpu_devices(const ObjectReader& at, int first_cpu);
  void read_socket_pairs(ObjectReader& group);
  void read_link(ObjectReader& entry);
  void attach_children(ObjectReader& owner, int vertex);
  void check_nvlinks(const ObjectReader& group) const;

  MachineSpec::Link nvlink(int a, int b, int count, const ObjectReader& at) const;
  MachineSpec::Link pcie(int a, int b, PcieSlot slot, const ObjectReader& at) const;
  MachineSpec::Link socket(int a, int b, const std::string& technology, const ObjectReader& at) const;
  [[nodiscard]] PcieSlot slot_of(int vertex) const;
  [[nodiscard]] std::string gpu_name(int index) const;
  [[nodiscard]] std::string nic_name(int index) const;
  [[nodiscard]] int vertex_named(const ObjectReader& at, const std::string& key, const std::string& name) const;
  [[nodiscard]] std::vector<std::string> names() const;

  MachineSpec& machine_;
  const GpuSpec& gpu_;
  const Interconnects& interconnects_;
  WiringDefaults defaults_;
  std::map<std::string, int> by_name_;
};

}  // namespace rehearse
