#include "core/hardware/trays.hpp"

#include <array>
#include <cctype>

#include <fmt/format.h>

#include "core/base/index.hpp"

namespace rehearse {
namespace {

using Kind = MachineSpec::VertexKind;

/// "PLX3" counted on by `offset`: "PLX7". A name of the user's own gains the tray.
std::string name_in_tray(const MachineSpec::Vertex& vertex, int offset, int tray) {
  std::string index = std::to_string(vertex.index);
  const std::string& name = vertex.name;
  bool counted = name.size() > index.size() && name.ends_with(index) &&
                 !std::isdigit(static_cast<unsigned char>(name[name.size() - index.size() - 1]));
  if (counted) return name.substr(0, name.size() - index.size()) + std::to_string(vertex.index + offset);
  return tray == 0 ? name : fmt::format("{}.{}", name, tray);
}

}  // namespace

void repeat_trays(MachineSpec& machine, int trays) {
  machine.trays = trays;
  if (trays == 1) return;
  const auto tray_vertices = std::move(machine.vertices);
  const auto tray_links = std::move(machine.links);
  machine.vertices.clear();
  machine.links.clear();

  std::vector<std::vector<int>> place(static_cast<std::size_t>(trays), std::vector<int>(tray_vertices.size()));
  for (Kind kind : {Kind::gpu, Kind::nvswitch, Kind::pcie_switch, Kind::cpu, Kind::nic}) {
    int per_tray = 0;
    for (const auto& v : tray_vertices) per_tray += v.kind == kind;
    for (int tray = 0; tray < trays; ++tray) {
      for (std::size_t v = 0; v < tray_vertices.size(); ++v) {
        if (tray_vertices[v].kind != kind) continue;
        int& at = nth(place, tray)[v];
        at = static_cast<int>(machine.vertices.size());
        if (kind == Kind::nvswitch && tray > 0) {
          at = place[0][v];
          continue;
        }
        auto copy = tray_vertices[v];
        copy.name = name_in_tray(copy, tray * per_tray, tray);
        copy.index += tray * per_tray;
        machine.vertices.push_back(std::move(copy));
      }
    }
  }
  for (int tray = 0; tray < trays; ++tray) {
    for (auto link : tray_links) {
      bool between_switches =
          nth(tray_vertices, link.a).kind == Kind::nvswitch && nth(tray_vertices, link.b).kind == Kind::nvswitch;
      if (between_switches && tray > 0) continue;
      link.a = nth(nth(place, tray), link.a);
      link.b = nth(nth(place, tray), link.b);
      machine.links.push_back(link);
    }
  }
  machine.gpus *= trays;
  machine.nics *= trays;
  machine.sockets *= trays;
  machine.host_memory = machine.host_memory * trays;
}

}  // namespace rehearse
