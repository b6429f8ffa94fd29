#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/hardware/read_specs.hpp"
#include "core/hardware/source_table.hpp"
#include "core/hardware/wiring.hpp"
#include "core/units/error.hpp"

namespace rehearse {
namespace {

PcieSlot read_slot(ObjectReader& group) {
  return {static_cast<int>(group.integer("generation", {1, 10})), static_cast<int>(group.integer("lanes", {1, 16}, 16))};
}

void read_cpu(ObjectReader group, SourceTable& sources, MachineSpec& machine, WiringDefaults& defaults) {
  static const std::array<std::string, 5> kVendors{"intel", "amd", "arm", "power", "zhaoxin"};
  sources.cite(group);
  machine.cpu_model = group.string("model");
  machine.cpu_vendor = group.choice("vendor", kVendors);
  machine.sockets = static_cast<int>(group.integer("sockets", {1, 1024}));
  defaults.socket_link = group.string("socket_link", "");
  if (machine.sockets > 1 && defaults.socket_link.empty())
    group.fail("socket_link", "several sockets need the link between them", "name an entry of \"sockets\" in interconnects.json");
  group.finish();
}

void read_nic(ObjectReader& group, SourceTable& sources, MachineSpec& machine, WiringDefaults& defaults) {
  sources.cite(group);
  machine.nic.name = group.string("name");
  machine.nic.rate = group.quantity<BytesPerSecond>("rate");
  machine.nics = static_cast<int>(group.integer("count", {0, 1024}));
  if (auto slot = group.optional_object("pcie")) {
    defaults.nic_slot = read_slot(*slot);
    slot->finish();
  }
  group.finish();
}

}  // namespace

MachineSpec read_machine(const nlohmann::json& json, const std::string& origin, const std::string& id,
                         const Interconnects& interconnects, const GpuLookup& find_gpu) {
  ObjectReader file(json, origin);
  read_header(file, "machine");
  SourceTable sources(file);
  MachineSpec machine;
  WiringDefaults defaults;
  machine.id = id;
  machine.name = file.string("name");
  machine.gpu = file.string("gpu");
  machine.gpus = static_cast<int>(file.integer("gpus", {1, 1024}));
  machine.gpudirect_rdma = file.boolean("gpudirect_rdma", true);
  machine.peer_to_peer = file.boolean("peer_to_peer", true);
  machine.nvls = file.boolean("nvls", false);

  ObjectReader pcie = file.object("pcie");
  sources.cite(pcie);
  defaults.slot = defaults.nic_slot = read_slot(pcie);
  pcie.finish();
  read_cpu(file.object("cpu"), sources, machine, defaults);
  if (auto group = file.optional_object("nic")) read_nic(*group, sources, machine, defaults);
  if (auto group = file.optional_object("power")) {
    sources.cite(*group);
    machine.power = group->quantity<Watts>("maximum");
    group->finish();
  }
  std::shared_ptr<const GpuSpec> gpu;
  try {
    gpu = find_gpu(machine.gpu);
  } catch (const Error& e) {
    if (!e.where.empty()) throw;
    file.fail("gpu", e.what(), e.hint);
  }
  ObjectReader wiring = file.object("wiring");
  sources.cite(wiring);
  Wiring(machine, *gpu, interconnects, defaults).read(wiring);
  wiring.finish();
  file.finish();
  machine.sources = sources.finish();
  return machine;
}

}  // namespace rehearse
