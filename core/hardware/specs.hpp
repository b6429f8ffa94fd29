#pragma once
// What a GPU, a machine and a network are: plain data as the files under topologies/ state it, every figure with
// its source and its evidence. Nothing here is calibrated but what collectives take beyond NCCL's table
// (collective_constants.hpp): achieved rates of kernels live in the calibration profiles of core/price.

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/units.hpp"

namespace rehearse {

/// How far a figure can be trusted, best first.
enum class Evidence { measured_here, published, datasheet, estimate };
[[nodiscard]] std::string_view name_of(Evidence e);
/// Throws Error (usage) with the valid names and a suggestion.
[[nodiscard]] Evidence parse_evidence(std::string_view name);

/// Where a group of figures comes from.
struct Source {
  std::string key;   ///< Short key, unique in its file.
  std::string text;  ///< Citation or address.
  Evidence evidence = Evidence::estimate;
  bool operator==(const Source&) const = default;
};

struct NvlinkSpec {
  int generation = 0;
  int links = 0;
  BytesPerSecond per_link;  ///< Signalling rate of one link, one direction.
  /// What NCCL's topology search takes one link to carry (graph/topo.h), one direction.
  BytesPerSecond nccl_per_link;
};

struct PcieSpec {
  int generation = 0;
  int lanes = 16;
  BytesPerSecond per_direction;  ///< Raw rate of the whole slot, one direction.
};

struct CollectiveConstants;  // collective_constants.hpp

/// One GPU (or one die that software sees as a device); or a CPU socket that computes as a rank of its own.
struct GpuSpec {
  enum class Device { gpu, cpu };
  std::string id;
  std::string name;
  std::string vendor;
  std::string generation;      ///< Lower-case architecture: "volta", "ampere", "hopper", "blackwell".
  int compute_capability = 0;  ///< 70, 80, 90, 100: NCCL's and CUDA's number; 0 where it has none.
  /// What its generation's collectives take beyond NCCL's table; the catalogue sets it. Null: NCCL's table alone.
  std::shared_ptr<const CollectiveConstants> collectives;
  Bytes memory;         ///< As it is sold.
  Bytes usable_memory;  ///< What processes can have of it; the driver and error correction take the rest.
  BytesPerSecond memory_bandwidth;
  std::map<DType, FlopsPerSecond> peak_dense;  ///< Without sparsity; with fp32 accumulation.
  int sm_count = 0;
  Bytes l2;
  Watts tdp;
  std::optional<NvlinkSpec> nvlink;
  PcieSpec pcie;
  Device device = Device::gpu;  ///< cpu: `memory` is the socket's DRAM and `sm_count` its cores.
  /// The driver lets two of them reach each other's memory over PCIe (GeForce: it does not).
  bool peer_to_peer = true;
  std::vector<std::string> pci_devices;  ///< PCI device ids, "0x2330": how NCCL's topology files name the model.
  std::vector<Source> sources;

  /// Peak for arithmetic in `t`. Where the chip has no such unit bf16 falls back to fp16, and fp16 and tf32 to fp32;
  /// throws Error (usage) for anything else it lacks.
  [[nodiscard]] FlopsPerSecond peak(DType t) const;
};

struct NicSpec {
  std::string name;
  BytesPerSecond rate;  ///< One direction.
};

/// One server, or several in one NVLink domain: its GPUs and how they are wired. Vertices and links as data, so that
/// any wiring can be stated.
struct MachineSpec {
  enum class VertexKind { gpu, nvswitch, pcie_switch, cpu, nic };
  struct Vertex {
    VertexKind kind;
    std::string name;  ///< "GPU0", "NVSwitch1", "PLX2", "CPU0", "NIC3".
    int index;         ///< Position among the vertices of its kind.
    /// Chips that this vertex stands for: NVSwitch chips over which every transfer is spread evenly are one vertex.
    int chips = 1;
    int numa = -1;         ///< CPU: NUMA node as the operating system counts them.
    std::string cores{};   ///< CPU: its cores as a list, "0-23,96-119"; empty where unknown.
    std::string device{};  ///< NIC: what its driver calls it, "mlx5_0"; empty where unknown.
  };
  enum class LinkKind { nvlink, pcie, socket, c2c };
  /// A full-duplex link; both directions carry `rate` each.
  struct Link {
    int a, b;  ///< Indices into `vertices`.
    LinkKind kind;
    int count = 1;             ///< Parallel links taken as one (NVLink bricks).
    BytesPerSecond rate;       ///< All `count` together, one direction.
    BytesPerSecond nccl_rate;  ///< The same as NCCL's search sees it.
    Seconds latency;           ///< Of one crossing, either direction.
    /// PCIe link of a CPU: those with equal numbers meet in one host bridge; -1 has one of its own.
    int host_bridge = -1;
  };

  /// Channels that NCCL's own search found on such a machine (NCCL_GRAPH_DUMP_FILE): where given, they take the place
  /// of ours.
  struct NcclGraph {
    int id = 0;        ///< 0 ring, 1 tree, 2 CollNet, 3 NVLS.
    int pattern = 0;   ///< 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS, 6 CollNet direct.
    int channels = 0;  ///< Of the search, before NCCL doubles them.
    BytesPerSecond speed_intra, speed_inter;  ///< Per channel, one direction.
    std::string type_intra, type_inter;       ///< Worst path: "NVL", "PIX", "PXB", "PHB", "SYS", ...
    int cross_nic = 0;
    bool same_channels = true;
    std::vector<std::vector<int>> orders;  ///< GPUs of each channel in its order.
  };

  std::string id;
  std::string name;
  std::string gpu;  ///< GpuSpec id.
  int gpus = 0;
  std::string cpu_model;
  std::string cpu_vendor;  ///< "intel", "amd", "arm", "power": NCCL's constants differ.
  int sockets = 1;
  Bytes host_memory{0};        ///< Of all sockets together; 0: not stated, and nothing is held against it.
  bool gpudirect_rdma = true;  ///< NICs read and write GPU memory; otherwise messages are staged in host memory.
  /// GPUs reach each other's memory; otherwise their transfers are staged in host memory.
  bool peer_to_peer = true;
  bool nvls = false;  ///< NVSwitch with multicast (NVLink SHARP).
  /// Messages for another rail go over NVLink to the GPU beside that rail's NIC (NCCL_PXN_DISABLE switches it off).
  bool pxn = true;
  /// Hosts, each with an operating system of its own, that one NVLink domain joins (18 in an NVL72 rack).
  int trays = 1;
  NicSpec nic;
  int nics = 0;
  Watts power;
  std::vector<Vertex> vertices;
  std::vector<Link> links;
  std::vector<NcclGraph> nccl_graphs;  ///< At most one per id.
  std::vector<Source> sources;
};

/// Of calls that leave a node. A network states what was measured on it; what it leaves out comes from the GPU
/// generation's file.
struct NetworkCollectives {
  /// Beyond NCCL's table, each time the critical path of a call crosses the network.
  std::optional<Seconds> crossing;
  std::optional<double> bandwidth;         ///< Reached by streaming, over what NCCL's table says; 0.1 to 2.
  std::optional<Seconds> message;          ///< One message between two devices, empty.
  std::optional<double> message_share;     ///< Of a NIC's rate that one message reaches; 0 to 1.
  std::optional<double> all_to_all_share;  ///< Of a node's NICs that an all-to-all reaches; 0 to 1.
  /// Switches reduce in the network and NCCL's CollNet plug-in is installed.
  bool sharp = false;
  /// Chips on a torus reduce along its rings by themselves, without NCCL (core/collective/torus_rings.hpp).
  bool torus = false;
};

/// A fabric that joins machines: a generator with parameters, or a named preset of one.
struct NetworkSpec {
  std::string id;
  std::string name;
  std::string kind;  ///< Registered generator: "single_switch", "fat_tree", "rail_optimised", ...
  std::map<std::string, double> parameters;  ///< Per generator: nodes_per_unit, oversubscription, levels, ...
  Seconds switch_latency;                    ///< One hop.
  Seconds nic_latency;                       ///< Host to wire and back, once per message.
  /// Fastest NIC the switches serve, one direction; 0 takes any. Faster NICs run at this rate.
  BytesPerSecond port_rate;
  NetworkCollectives collectives;  ///< What collectives were measured to take on it.
  std::vector<Source> sources;
};

/// Machines and the network that joins them, by the ids of their files.
struct ClusterSpec {
  struct Part {
    std::string machine;
    int nodes;
    bool operator==(const Part&) const = default;
  };
  std::string id;
  std::string name;
  std::vector<Part> parts;
  std::string network;
  std::vector<Source> sources;
  bool operator==(const ClusterSpec&) const = default;
};

}  // namespace rehearse
