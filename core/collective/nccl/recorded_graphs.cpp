#include "core/collective/nccl/recorded_graphs.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/registry.hpp"

namespace rehearse::nccl {
namespace {

/// In the order of PathClass.
constexpr std::array<std::string_view, 12> kPaths{"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                                  "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};

PathClass path_class(const std::string& name, const MachineSpec& machine) {
  const auto at = std::find(kPaths.begin(), kPaths.end(), name);
  if (at == kPaths.end()) {
    Error e = unknown_name("path", name, std::vector<std::string>(kPaths.begin(), kPaths.end()));
    e.where = machine.id + ": nccl.graphs";
    throw e;
  }
  return static_cast<PathClass>(at - kPaths.begin());
}

GraphResult result_of(const MachineSpec::NcclGraph& g, const MachineSpec& machine) {
  return {g.channels,
          g.speed_intra,
          g.speed_inter,
          path_class(g.type_intra, machine),
          path_class(g.type_inter, machine),
          g.same_channels};
}

}  // namespace

NodeSearch with_recorded_graphs(NodeSearch found, const MachineSpec& machine) {
  constexpr int kRingId = 0, kTreeId = 1, kNvlsId = 3;
  for (const MachineSpec::NcclGraph& g : machine.nccl_graphs) {
    if (g.id == kRingId) found.ring = result_of(g, machine);
    if (g.id == kTreeId) {
      found.tree = result_of(g, machine);
      found.tree_pattern =
          g.pattern == static_cast<int>(TreePattern::chain) ? TreePattern::chain : TreePattern::balanced;
    }
    if (g.id == kNvlsId) found.nvls = result_of(g, machine);
  }
  return found;
}

}  // namespace rehearse::nccl
