#include "core/hardware/wiring.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/base/registry.hpp"

namespace rehearse {
namespace {

using LinkKind = MachineSpec::LinkKind;

constexpr int kMostLinks = 1024;  ///< Parallel links between two vertices.

/// Runs a lookup that knows nothing of files, and gives its error the place in this one.
template <class Lookup>
auto located(const ObjectReader& at, const std::string& key, Lookup lookup) {
  try {
    return lookup();
  } catch (const Error& e) {
    at.fail(key, e.what(), e.hint);
  }
}

/// [[0, 1, 2], ...]: rows of `width` whole numbers.
std::vector<std::vector<int>> rows_of(ObjectReader& group, const std::string& key, std::size_t width) {
  auto rows = whole_number_rows(group, key);
  for (const auto& row : rows)
    if (row.size() != width) group.fail(key, fmt::format("wanted an array of rows of {} whole numbers", width));
  return rows;
}

std::vector<int> whole_numbers(ObjectReader& group, const std::string& key) {
  std::vector<int> out;
  if (!group.has(key)) {
    group.expect(key);
    return out;
  }
  for (double value : group.numbers(key, {0, 1e6})) {
    if (value != static_cast<int>(value)) group.fail(key, "wanted whole numbers");
    out.push_back(static_cast<int>(value));
  }
  return out;
}

PcieSlot read_slot(ObjectReader& entry, PcieSlot fallback) {
  return {static_cast<int>(entry.integer("generation", {1, 10}, fallback.generation)),
          static_cast<int>(entry.integer("lanes", {1, 16}, fallback.lanes))};
}

}  // namespace

std::vector<std::vector<int>> whole_number_rows(ObjectReader& group, const std::string& key) {
  std::vector<std::vector<int>> rows;
  const nlohmann::json* table = group.raw(key);
  if (!table) return rows;
  bool valid = table->is_array();
  for (std::size_t i = 0; valid && i < table->size(); ++i) {
    const nlohmann::json& from = (*table)[i];
    valid = from.is_array();
    std::vector<int> row;
    for (std::size_t j = 0; valid && j < from.size(); ++j) {
      valid = from[j].is_number_integer() && from[j].get<double>() >= 0 && from[j].get<double>() <= 1e6;
      if (valid) row.push_back(from[j].get<int>());
    }
    rows.push_back(std::move(row));
  }
  if (!valid) group.fail(key, "wanted an array of rows of whole numbers");
  return rows;
}

std::string Wiring::gpu_name(int index) const {
  return fmt::format("{}{}", gpu_.device == GpuSpec::Device::cpu ? "Socket" : "GPU", index);
}

std::string Wiring::nic_name(int index) const {
  return defaults_.nic_names.empty() ? fmt::format("NIC{}", index) : nth(defaults_.nic_names, index);
}

void Wiring::add_vertex(const ObjectReader& at, Kind kind, const std::string& name, int chips) {
  if (by_name_.contains(name)) at.fail({}, fmt::format("two vertices are named '{}'", name));
  int index = 0;
  for (const auto& v : machine_.vertices) index += v.kind == kind;
  by_name_[name] = static_cast<int>(machine_.vertices.size());
  machine_.vertices.push_back({.kind = kind, .name = name, .index = index, .chips = chips});
  auto& vertex = machine_.vertices.back();
  if (kind == Kind::cpu) vertex.numa = index;
  if (kind == Kind::nic && !defaults_.nic_devices.empty()) vertex.device = nth(defaults_.nic_devices, index);
}

Wiring::Readers Wiring::add_vertices(ObjectReader& group, const std::string& key, Kind kind, const std::string& prefix,
                                     int least) {
  Readers readers;
  if (group.has(key)) readers = group.objects(key);
  group.expect(key);
  for (int i = 0; i < std::max(least, static_cast<int>(readers.size())); ++i) {
    int chips = 1;
    std::string name = fmt::format("{}{}", prefix, i);
    if (i < static_cast<int>(readers.size())) {
      name = readers[i].string("name", name);
      if (kind == Kind::nvswitch) chips = static_cast<int>(readers[i].integer("chips", {1, 1024}, 1));
    }
    add_vertex(group, kind, name, chips);
  }
  return readers;
}

void Wiring::read(ObjectReader& group) {
  for (int i = 0; i < machine_.gpus; ++i) add_vertex(group, Kind::gpu, gpu_name(i));
  int nvswitches = static_cast<int>(machine_.vertices.size());
  Readers nvswitch = add_vertices(group, "nvswitches", Kind::nvswitch, "NVSwitch");
  int pcie_switches = static_cast<int>(machine_.vertices.size());
  Readers pcie_switch = add_vertices(group, "pcie_switches", Kind::pcie_switch, "PLX");
  int cpus = static_cast<int>(machine_.vertices.size());
  Readers cpu = add_vertices(group, "cpus", Kind::cpu, "CPU", machine_.sockets);
  for (int i = 0; i < machine_.nics; ++i) add_vertex(group, Kind::nic, nic_name(i));

  read_nvlink_pairs(group);
  for (int i = 0; i < static_cast<int>(nvswitch.size()); ++i) read_nvswitch(nvswitch[i], nvswitches + i);
  for (int i = 0; i < static_cast<int>(pcie_switch.size()); ++i) read_pcie_switch(pcie_switch[i], pcie_switches + i);
  for (int i = 0; i < static_cast<int>(cpu.size()); ++i) read_cpu(cpu[i], cpus + i);
  if (gpu_.device == GpuSpec::Device::cpu) attach_cpu_devices(group, cpus);
  read_socket_pairs(group);
  if (group.has("links"))
    for (ObjectReader& entry : group.objects("links")) read_link(entry);
  group.expect("links");
  // Last: a group may hold anything that is below the CPU by now.
  for (int i = 0; i < static_cast<int>(cpu.size()); ++i) {
    read_host_bridges(cpu[i], cpus + i);
    cpu[i].finish();
  }
  check_nvlinks(group);
}

void Wiring::read_nvlink_pairs(ObjectReader& group) {
  if (!group.has("nvlink_pairs")) {
    group.expect("nvlink_pairs");
    return;
  }
  for (const auto& row : rows_of(group, "nvlink_pairs", 3)) {
    int a = vertex_named(group, "nvlink_pairs", fmt::format("GPU{}", row[0]));
    int b = vertex_named(group, "nvlink_pairs", fmt::format("GPU{}", row[1]));
    if (a == b || row[2] < 1 || row[2] > kMostLinks)
      group.fail("nvlink_pairs",
                 fmt::format("[{}, {}, {}] is not two GPUs and a number of links", row[0], row[1], row[2]));
    machine_.links.push_back(nvlink(a, b, row[2], group));
  }
}

void Wiring::read_nvswitch(ObjectReader& entry, int vertex) {
  int count = static_cast<int>(entry.integer("links_per_gpu", {1, kMostLinks}));
  std::vector<int> gpus = whole_numbers(entry, "gpus");
  if (!entry.has("gpus"))
    for (int i = 0; i < machine_.gpus; ++i) gpus.push_back(i);
  for (int gpu : gpus)
    machine_.links.push_back(nvlink(vertex_named(entry, "gpus", fmt::format("GPU{}", gpu)), vertex, count, entry));
  entry.finish();
}

void Wiring::read_pcie_switch(ObjectReader& entry, int vertex) {
  attach_children(entry, vertex);
  PcieSlot slot = defaults_.slot;
  if (auto uplink = entry.optional_object("uplink")) {
    slot = read_slot(*uplink, slot);
    uplink->finish();
  }
  if (entry.has("under")) {
    int parent = vertex_named(entry, "under", entry.string("under"));
    if (parent == vertex) entry.fail("under", "a switch cannot be under itself");
    machine_.links.push_back(pcie(vertex, parent, slot, entry));
  }
  entry.expect("under");
  entry.finish();
}

void Wiring::attach_children(ObjectReader& owner, int vertex) {
  for (const bool gpus : {true, false}) {
    const std::string key = gpus ? "gpus" : "nics";
    for (int index : whole_numbers(owner, key)) {
      if (index >= (gpus ? machine_.gpus : machine_.nics))
        owner.fail(key, fmt::format("unknown vertex '{}{}': the machine has {}", gpus ? "GPU" : "NIC", index,
                                    gpus ? machine_.gpus : machine_.nics));
      int child = by_name_.at(gpus ? gpu_name(index) : nic_name(index));
      machine_.links.push_back(pcie(child, vertex, slot_of(child), owner));
    }
  }
}

void Wiring::read_cpu(ObjectReader& entry, int vertex) {
  auto& cpu = nth(machine_.vertices, vertex);
  cpu.numa = static_cast<int>(entry.integer("numa", {0, 4095}, cpu.numa));
  cpu.cores = entry.string("cores", "");
  attach_children(entry, vertex);
}

void Wiring::read_host_bridges(ObjectReader& cpu, int vertex) {
  if (!cpu.has("host_bridges")) {
    cpu.expect("host_bridges");
    return;
  }
  const nlohmann::json& groups = *cpu.raw("host_bridges");
  bool valid = groups.is_array();
  for (int bridge = 0; valid && bridge < static_cast<int>(groups.size()); ++bridge) {
    valid = nth(groups, bridge).is_array();
    if (!valid) break;
    for (const auto& name : nth(groups, bridge)) {
      if (!name.is_string()) {
        valid = false;
        break;
      }
      int child = vertex_named(cpu, "host_bridges", name.get<std::string>());
      bool found = false;
      for (auto& link : machine_.links)
        if ((link.a == child && link.b == vertex) || (link.b == child && link.a == vertex))
          link.host_bridge = bridge, found = true;
      if (!found) cpu.fail("host_bridges", fmt::format("'{}' is not right below this CPU", name.get<std::string>()));
    }
  }
  if (!valid) cpu.fail("host_bridges", "wanted an array of rows of names");
}

void Wiring::attach_cpu_devices(const ObjectReader& at, int first_cpu) {
  int cpus = static_cast<int>(std::count_if(machine_.vertices.begin(), machine_.vertices.end(),
                                            [](const auto& v) { return v.kind == Kind::cpu; }));
  if (cpus % machine_.gpus != 0)
    at.fail({}, fmt::format("{} devices that are sockets do not fit {} CPUs", machine_.gpus, cpus));
  for (int i = 0; i < machine_.gpus; ++i)
    machine_.links.push_back({i, first_cpu + i * cpus / machine_.gpus, LinkKind::c2c, 1, gpu_.memory_bandwidth,
                              gpu_.memory_bandwidth, interconnects_.socket_latency});
}

void Wiring::read_socket_pairs(ObjectReader& group) {
  std::vector<int> cpus;
  for (int v = 0; v < static_cast<int>(machine_.vertices.size()); ++v)
    if (machine_.vertices[v].kind == Kind::cpu) cpus.push_back(v);
  std::vector<std::pair<int, int>> pairs;
  if (group.has("socket_pairs")) {
    for (const auto& row : rows_of(group, "socket_pairs", 2)) {
      if (row[0] == row[1] || std::max(row[0], row[1]) >= static_cast<int>(cpus.size()))
        group.fail("socket_pairs", fmt::format("[{}, {}] is not two of the {} CPUs", row[0], row[1], cpus.size()));
      pairs.emplace_back(cpus[row[0]], cpus[row[1]]);
    }
  } else {
    for (std::size_t i = 0; i < cpus.size(); ++i)
      for (std::size_t j = i + 1; j < cpus.size(); ++j) pairs.emplace_back(cpus[i], cpus[j]);
  }
  group.expect("socket_pairs");
  for (auto [a, b] : pairs) machine_.links.push_back(socket(a, b, defaults_.socket_link, group));
}

void Wiring::read_link(ObjectReader& entry) {
  static const std::array<std::string, 4> kKinds{"nvlink", "pcie", "socket", "c2c"};
  int a = vertex_named(entry, "a", entry.string("a"));
  int b = vertex_named(entry, "b", entry.string("b"));
  if (a == b) entry.fail("b", "a link cannot lead back to its own vertex");
  std::string kind = entry.choice("kind", kKinds);
  MachineSpec::Link link;
  if (kind == "nvlink") {
    link = nvlink(a, b, static_cast<int>(entry.integer("count", {1, kMostLinks}, 1)), entry);
  } else if (kind == "pcie") {
    link = pcie(a, b, read_slot(entry, defaults_.slot), entry);
  } else if (kind == "socket") {
    link = socket(a, b, entry.string("technology", defaults_.socket_link), entry);
  } else {
    auto rate = entry.quantity<BytesPerSecond>("rate");
    link = {a, b, LinkKind::c2c, 1, rate, rate, interconnects_.c2c_latency};
  }
  link.rate = entry.quantity<BytesPerSecond>("rate", link.rate);
  link.nccl_rate = entry.quantity<BytesPerSecond>("nccl_rate", link.nccl_rate);
  link.latency = entry.quantity<Seconds>("latency", link.latency);
  entry.finish();
  machine_.links.push_back(link);
}

MachineSpec::Link Wiring::nvlink(int a, int b, int count, const ObjectReader& at) const {
  if (!gpu_.nvlink) at.fail({}, fmt::format("{} has no NVLink", gpu_.name));
  return {a,
          b,
          LinkKind::nvlink,
          count,
          count * gpu_.nvlink->per_link,
          count * gpu_.nvlink->nccl_per_link,
          interconnects_.nvlink_latency};
}

MachineSpec::Link Wiring::pcie(int a, int b, PcieSlot slot, const ObjectReader& at) const {
  auto rates = located(at, {}, [&] { return interconnects_.pcie(slot.generation, slot.lanes); });
  return {a, b, LinkKind::pcie, 1, rates.raw, rates.nccl, interconnects_.pcie_latency};
}

MachineSpec::Link Wiring::socket(int a, int b, const std::string& technology, const ObjectReader& at) const {
  auto rates = located(at, {}, [&] { return interconnects_.socket(technology); });
  return {a, b, LinkKind::socket, 1, rates.raw, rates.nccl, interconnects_.socket_latency};
}

PcieSlot Wiring::slot_of(int vertex) const {
  if (machine_.vertices[vertex].kind == Kind::nic) return defaults_.nic_slot;
  return {std::min(defaults_.slot.generation, gpu_.pcie.generation), std::min(defaults_.slot.lanes, gpu_.pcie.lanes)};
}

int Wiring::vertex_named(const ObjectReader& at, const std::string& key, const std::string& name) const {
  if (auto it = by_name_.find(name); it != by_name_.end()) return it->second;
  return located(at, key, [&]() -> int { throw unknown_name("vertex", name, names()); });
}

std::vector<std::string> Wiring::names() const {
  std::vector<std::string> all;
  for (const auto& [name, vertex] : by_name_) all.push_back(name);
  return all;
}

void Wiring::check_nvlinks(const ObjectReader& group) const {
  std::vector<int> used(machine_.vertices.size(), 0);
  for (const auto& link : machine_.links)
    if (link.kind == LinkKind::nvlink) used[link.a] += link.count, used[link.b] += link.count;
  for (std::size_t v = 0; v < used.size(); ++v)
    if (machine_.vertices[v].kind == Kind::gpu && used[v] > (gpu_.nvlink ? gpu_.nvlink->links : 0))
      group.fail({}, fmt::format("{} is wired with {} NVLinks; a {} has {}", machine_.vertices[v].name, used[v],
                                 gpu_.name, gpu_.nvlink->links));
}

}  // namespace rehearse
