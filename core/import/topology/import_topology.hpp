#pragma once
// From what a machine says about itself to a machine file: `nvidia-smi topo -m`, NCCL's topology XML
// (NCCL_TOPO_DUMP_FILE) and NCCL's graph XML (NCCL_GRAPH_DUMP_FILE). Nothing is guessed: what the text does not say
// must be given, and a text that contradicts itself is refused.

#include <string>
#include <string_view>
#include <vector>

#include "core/hardware/catalogue.hpp"
#include "core/hardware/specs.hpp"

namespace rehearse {

struct ImportOptions {
  /// GpuSpec id. Needed where the text does not say the model (PCI device ids of XML files do, for known ones).
  std::string gpu;
  /// Entry of "sockets" in interconnects.json: vendor and link. Needed by nvidia-smi texts; XML files say it.
  std::string cpu;
  BytesPerSecond nic_rate;  ///< One NIC, one direction. Needed by nvidia-smi texts with NICs; XML files say it.
  /// Where the GPUs' NVLinks go. `as_stated` refuses a text that names no NVLink of a GPU that has some: templates of
  /// clouds leave them out.
  enum class Nvlinks { as_stated, to_switch, none };
  Nvlinks nvlinks = Nvlinks::as_stated;
  bool no_peer_to_peer = false;  ///< GPUs have no access to each other's memory, whatever their model.
  std::string name;              ///< Of the machine; empty: "Imported from FILE".
  std::string base_machine;      ///< Graph XML only: the text of the machine file that the graph belongs to.
};

struct ImportedTopology {
  std::string machine;             ///< Text of a machine file (rehearse/machine/v1), read back and found good.
  std::vector<std::string> notes;  ///< What was taken for granted or left out; also in the file's "notes".
};

/// Bytes of a text that are read; a larger file is refused before it is read.
inline constexpr std::size_t kMostTopologyBytes = 8'000'000;

/// Recognises the text by its content. Throws Error (usage) with the exact reason: what is missing and how to give it,
/// what contradicts, which kind of file it is instead (AMD's topology XML, hwloc, SimGrid, `topo -p2p`), limits of
/// size, depth and number.
[[nodiscard]] ImportedTopology import_topology(std::string_view text, const std::string& origin,
                                               const ImportOptions& options, const Catalogue& catalogue);

}  // namespace rehearse
