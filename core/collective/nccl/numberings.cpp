#include "core/collective/nccl/numberings.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <utility>

#include "core/base/index.hpp"
#include "core/collective/nccl/recorded_graphs.hpp"

namespace rehearse::nccl {
namespace {

using NumberingsKind = MachineSpec::VertexKind;

std::vector<int> drawn(int n, std::mt19937& random) {
  std::vector<int> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  for (std::size_t i = out.size(); i > 1; --i) std::swap(out[i - 1], out[random() % i]);
  return out;
}

MachineSpec renumbered(const MachineSpec& machine, std::mt19937& random) {
  MachineSpec out = machine;
  const std::vector<int> gpus = drawn(machine.gpus, random), nics = drawn(machine.nics, random);
  for (auto& v : out.vertices) {
    if (v.kind == NumberingsKind::gpu) v.index = nth(gpus, v.index);
    if (v.kind == NumberingsKind::nic) v.index = nth(nics, v.index);
  }
  return out;
}

/// What a search is worth.
std::array<double, 3> worth(const NodeSearch& found, bool leaves_node) {
  const auto rate = [leaves_node](const GraphResult& g) {
    return g.channels * (leaves_node ? g.inter : g.intra).value();
  };
  return {rate(found.ring), rate(found.tree), rate(found.nvls)};
}

}  // namespace

bool all_on_nvswitch(const MachineSpec& m, std::span<const int> gpus) {
  const auto joined = [&](int gpu) {
    return std::any_of(m.links.begin(), m.links.end(), [&](const auto& l) {
      const auto &a = nth(m.vertices, l.a), &b = nth(m.vertices, l.b);
      return (a.kind == NumberingsKind::nvswitch && b.kind == NumberingsKind::gpu && b.index == gpu) ||
             (b.kind == NumberingsKind::nvswitch && a.kind == NumberingsKind::gpu && a.index == gpu);
    });
  };
  return std::all_of(gpus.begin(), gpus.end(), joined);
}

NodeSearch search_best_numbered(const MachineSpec& machine, const GpuSpec& gpu, std::span<const int> gpus,
                                bool leaves_node, SystemSearches* known) {
  NodeSearch best = search_node(machine, gpu, gpus, leaves_node, known);
  const bool whole = static_cast<int>(gpus.size()) == machine.gpus;
  if (whole && !leaves_node && !machine.nccl_graphs.empty()) return with_recorded_graphs(best, machine);
  if (!whole || gpus.size() < 3 || gpus.size() > 16 || all_on_nvswitch(machine, gpus)) return best;
  std::mt19937 random(1);
  for (int i = 0; i < kNumberings; ++i) {
    const NodeSearch found = search_node(renumbered(machine, random), gpu, gpus, leaves_node, known);
    if (worth(found, leaves_node) > worth(best, leaves_node)) best = found;
  }
  return best;
}

}  // namespace rehearse::nccl
