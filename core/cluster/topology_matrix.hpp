#pragma once
// How the GPUs and NICs of a machine reach each other, in the classes that `nvidia-smi topo -m` prints.

#include <string>
#include <string_view>
#include <vector>

#include "core/hardware/specs.hpp"

namespace rehearse {

/// Nearest first. What a path crosses beyond the devices' own links:
enum class PathType {
  self,
  nvlink,  ///< NV#: a bonded set of # NVLinks, directly or through NVSwitches.
  pix,     ///< At most one PCIe switch.
  pxb,     ///< Several PCIe switches, no CPU.
  phb,     ///< A PCIe host bridge of a CPU.
  node,    ///< Two host bridges of one CPU.
  sys,     ///< The link between two CPUs.
  none     ///< No path: NICs of different trays.
};

/// "X", "PIX", ...; NVLinks with their number, "NV12". "-" for none.
[[nodiscard]] std::string text_of(PathType type, int nvlinks);
/// What the classes mean, in nvidia-smi's words: {"X", "Self"}, ...
struct PathLegend {
  std::string_view name, meaning;
};
[[nodiscard]] const std::vector<PathLegend>& path_legend();

struct TopologyMatrix {
  struct Device {
    std::string name;    ///< "GPU0", "NIC3".
    std::string device;  ///< NIC: "mlx5_3", where known.
    bool is_nic = false;
    std::string cores;  ///< GPU: those of the nearest CPU, "0-23,96-119"; empty where unknown.
    int numa = -1;      ///< GPU: NUMA node of the nearest CPU; -1 without.
  };
  struct Cell {
    PathType type = PathType::none;
    int nvlinks = 0;
  };
  std::vector<Device> devices;           ///< GPUs, then NICs, in index order.
  std::vector<std::vector<Cell>> cells;  ///< Symmetric; by position in `devices`.

  /// "PIX": text_of of a cell.
  [[nodiscard]] std::string text(std::size_t row, std::size_t column) const {
    return text_of(cells[row][column].type, cells[row][column].nvlinks);
  }
};

/// The matrix of one host: of a machine with trays, the first. Between GPUs an NVLink path hides what PCIe path there
/// is.
[[nodiscard]] TopologyMatrix topology_matrix(const MachineSpec& machine);

}  // namespace rehearse
