#include "core/hardware/interconnects.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/registry.hpp"
#include "core/hardware/read_specs.hpp"
#include "core/hardware/source_table.hpp"

namespace rehearse {

Interconnects::Rates Interconnects::pcie(int generation, int lanes) const {
  auto it = pcie_x16.find(generation);
  if (it == pcie_x16.end())
    throw Error(ErrorKind::usage, fmt::format("PCIe generation {} is not listed", generation), "interconnects: /pcie");
  return {it->second.raw * lanes / 16, it->second.nccl * lanes / 16, {}};
}

const Interconnects::Rates& Interconnects::socket(const std::string& name) const {
  if (auto it = sockets.find(name); it != sockets.end()) return it->second;
  std::vector<std::string> known;
  for (const auto& [key, rates] : sockets) known.push_back(key);
  throw unknown_name("link between sockets", name, known);
}

Interconnects read_interconnects(const nlohmann::json& json, const std::string& origin) {
  ObjectReader file(json, origin);
  read_header(file, "interconnects");
  SourceTable sources(file);
  Interconnects out;

  auto latency_of = [&](const std::string& group_name) {
    ObjectReader group = file.object(group_name);
    sources.cite(group);
    Seconds latency = group.quantity<Seconds>("latency");
    group.finish();
    return latency;
  };
  auto rates_of = [&](ObjectReader& group, const std::string& raw, const std::string& nccl) {
    sources.cite(group);
    return Interconnects::Rates{group.quantity<BytesPerSecond>(raw), group.quantity<BytesPerSecond>(nccl), {}};
  };

  out.nvlink_latency = latency_of("nvlink");
  out.pcie_latency = latency_of("pcie");
  out.socket_latency = latency_of("socket");
  out.c2c_latency = latency_of("c2c");
  for (ObjectReader& group : file.objects("pcie_generations")) {
    int generation = static_cast<int>(group.integer("generation", {1, 10}));
    out.pcie_x16[generation] = rates_of(group, "x16", "nccl_x16");
    group.finish();
  }
  ObjectReader sockets = file.object("sockets");
  for (const auto& name : sockets.keys()) {
    ObjectReader group = sockets.object(name);
    out.sockets[name] = rates_of(group, "rate", "nccl_rate");
    out.sockets[name].vendor = group.choice("vendor", kCpuVendors);
    group.finish();
  }
  file.finish();
  out.sources = sources.finish();
  return out;
}

}  // namespace rehearse
