#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/hardware/read_specs.hpp"
#include "core/hardware/source_table.hpp"
#include "core/hardware/trays.hpp"
#include "core/hardware/wiring.hpp"

namespace rehearse {
namespace {

PcieSlot read_slot(ObjectReader& group) {
  return {static_cast<int>(group.integer("generation", {1, 10})),
          static_cast<int>(group.integer("lanes", {1, 16}, 16))};
}

void read_cpu(ObjectReader group, SourceTable& sources, MachineSpec& machine, WiringDefaults& defaults) {
  sources.cite(group);
  machine.cpu_model = group.string("model");
  machine.cpu_vendor = group.choice("vendor", kCpuVendors);
  machine.sockets = static_cast<int>(group.integer("sockets", {1, 1024}));
  group.expect("memory");
  if (group.has("memory")) machine.host_memory = group.quantity<Bytes>("memory");
  defaults.socket_link = group.string("socket_link", "");
  if (machine.sockets > 1 && defaults.socket_link.empty())
    group.fail("socket_link", "several sockets need the link between them",
               "name an entry of \"sockets\" in interconnects.json");
  group.finish();
}

/// One text per NIC; nothing where the key is absent.
std::vector<std::string> nic_texts(ObjectReader& group, const std::string& key, int nics) {
  std::vector<std::string> texts;
  if (group.has(key)) texts = group.strings(key);
  group.expect(key);
  if (!texts.empty() && texts.size() != static_cast<std::size_t>(nics))
    group.fail(key, fmt::format("{} texts for {} NICs", texts.size(), nics));
  return texts;
}

void read_nic(ObjectReader& group, SourceTable& sources, MachineSpec& machine, WiringDefaults& defaults) {
  sources.cite(group);
  machine.nic.name = group.string("name");
  machine.nic.rate = group.quantity<BytesPerSecond>("rate");
  machine.nics = static_cast<int>(group.integer("count", {0, 1024}));
  defaults.nic_names = nic_texts(group, "names", machine.nics);
  defaults.nic_devices = nic_texts(group, "devices", machine.nics);
  if (auto slot = group.optional_object("pcie")) {
    defaults.nic_slot = read_slot(*slot);
    slot->finish();
  }
  group.finish();
}

MachineSpec::NcclGraph read_graph(ObjectReader& entry, int gpus) {
  MachineSpec::NcclGraph graph;
  graph.id = static_cast<int>(entry.integer("id", {0, 6}));
  graph.pattern = static_cast<int>(entry.integer("pattern", {1, 6}));
  graph.channels = static_cast<int>(entry.integer("channels", {1, 64}));
  graph.speed_intra = entry.quantity<BytesPerSecond>("speed_intra");
  graph.speed_inter = entry.quantity<BytesPerSecond>("speed_inter");
  graph.type_intra = entry.string("type_intra");
  graph.type_inter = entry.string("type_inter");
  graph.cross_nic = static_cast<int>(entry.integer("cross_nic", {0, 2}, 0));
  graph.same_channels = entry.boolean("same_channels", true);
  graph.orders = whole_number_rows(entry, "orders");
  for (const auto& order : graph.orders)
    for (int gpu : order)
      if (gpu >= gpus) entry.fail("orders", fmt::format("GPU{} does not exist: the machine has {}", gpu, gpus));
  entry.finish();
  return graph;
}

void read_nccl(ObjectReader& group, SourceTable& sources, MachineSpec& machine) {
  sources.cite(group);
  for (ObjectReader& entry : group.objects("graphs")) {
    auto graph = read_graph(entry, machine.gpus);
    for (const auto& other : machine.nccl_graphs)
      if (other.id == graph.id) entry.fail("id", fmt::format("two graphs have id {}", graph.id));
    machine.nccl_graphs.push_back(std::move(graph));
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
  machine.nvls = file.boolean("nvls", false);
  machine.pxn = file.boolean("pxn", true);
  int trays = static_cast<int>(file.integer("trays", {1, 1024}, 1));

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
  machine.peer_to_peer = file.boolean("peer_to_peer", gpu->peer_to_peer);
  ObjectReader wiring = file.object("wiring");
  sources.cite(wiring);
  Wiring(machine, *gpu, interconnects, defaults).read(wiring);
  wiring.finish();
  repeat_trays(machine, trays);
  if (auto group = file.optional_object("nccl")) read_nccl(*group, sources, machine);
  file.finish();
  machine.sources = sources.finish();
  return machine;
}

}  // namespace rehearse
