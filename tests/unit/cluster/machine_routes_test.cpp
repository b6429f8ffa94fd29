// Path choice inside machines that no file describes.

#include <set>

#include <fmt/format.h>

#include "core/cluster/machine_routes.hpp"
#include "tests/unit/cluster/clusters.hpp"

namespace rehearse {
namespace {

using Kind = MachineSpec::VertexKind;
using LinkKind = MachineSpec::LinkKind;

MachineSpec with_vertices(std::initializer_list<std::pair<Kind, int>> kinds) {
  static const std::map<Kind, std::string> kPrefix{{Kind::gpu, "GPU"},
                                                   {Kind::nvswitch, "NVSwitch"},
                                                   {Kind::pcie_switch, "PLX"},
                                                   {Kind::cpu, "CPU"},
                                                   {Kind::nic, "NIC"}};
  MachineSpec machine;
  machine.id = "test";
  for (auto [kind, count] : kinds)
    for (int i = 0; i < count; ++i) machine.vertices.push_back({kind, fmt::format("{}{}", kPrefix.at(kind), i), i, 1});
  for (auto [kind, count] : kinds) {
    if (kind == Kind::gpu) machine.gpus = count;
    if (kind == Kind::nic) machine.nics = count;
  }
  return machine;
}

void connect(MachineSpec& machine, const std::string& a, const std::string& b, LinkKind kind, double rate) {
  auto at = [&](const std::string& name) {
    for (int v = 0; v < static_cast<int>(machine.vertices.size()); ++v)
      if (machine.vertices[v].name == name) return v;
    FAIL(name);
    return -1;
  };
  machine.links.push_back({at(a), at(b), kind, 1, BytesPerSecond{rate}, BytesPerSecond{rate}, Seconds{1e-7}});
}

std::string path_text(const MachineSpec& machine, const MachineRoutes::Path& path) {
  std::string text;
  for (int link : path.links) {
    const auto& l = machine.links[link / 2];
    int from = link % 2 == 0 ? l.a : l.b;
    int to = link % 2 == 0 ? l.b : l.a;
    if (text.empty()) text = machine.vertices[from].name;
    text += " " + machine.vertices[to].name;
  }
  return text;
}

/// GPU0, GPU1 and NIC0 on one switch of CPU0; GPU2, GPU3 and NIC1 on one of CPU1.
MachineSpec two_sockets() {
  MachineSpec m = with_vertices({{Kind::gpu, 4}, {Kind::pcie_switch, 2}, {Kind::cpu, 2}, {Kind::nic, 2}});
  for (int i = 0; i < 4; ++i) connect(m, fmt::format("GPU{}", i), i < 2 ? "PLX0" : "PLX1", LinkKind::pcie, 32e9);
  for (int i = 0; i < 2; ++i) {
    connect(m, fmt::format("NIC{}", i), fmt::format("PLX{}", i), LinkKind::pcie, 32e9);
    connect(m, fmt::format("PLX{}", i), fmt::format("CPU{}", i), LinkKind::pcie, 32e9);
  }
  connect(m, "CPU0", "CPU1", LinkKind::socket, 20e9);
  return m;
}

}  // namespace

TEST_CASE("PCIe neighbours meet at their switch, others through the sockets") {
  MachineSpec m = two_sockets();
  MachineRoutes routes(m);
  CHECK(path_text(m, routes.between(0, 1)) == "GPU0 PLX0 GPU1");
  CHECK(path_text(m, routes.between(3, 0)) == "GPU3 PLX1 CPU1 CPU0 PLX0 GPU0");
  CHECK(path_text(m, routes.to_nic(2)) == "GPU2 PLX1 NIC1");
  CHECK(routes.between(0, 1).latency.value() == Approx(2e-7));
}

TEST_CASE("without peer-to-peer access even neighbours go through host memory") {
  MachineSpec m = two_sockets();
  m.peer_to_peer = false;
  MachineRoutes routes(m);
  CHECK(path_text(m, routes.between(0, 1)) == "GPU0 PLX0 CPU0 PLX0 GPU1");
  CHECK(path_text(m, routes.between(1, 2)) == "GPU1 PLX0 CPU0 CPU1 PLX1 GPU2");
}

TEST_CASE("without GPUDirect RDMA messages go through host memory") {
  MachineSpec m = two_sockets();
  m.gpudirect_rdma = false;
  MachineRoutes routes(m);
  CHECK(path_text(m, routes.to_nic(0)) == "GPU0 PLX0 CPU0 PLX0 NIC0");
  CHECK(path_text(m, routes.from_nic(0)) == "NIC0 PLX0 CPU0 PLX0 GPU0");
  CHECK(path_text(m, routes.between(0, 1)) == "GPU0 PLX0 GPU1");
}

TEST_CASE("NVLink is preferred to a PCIe path of as many hops, and the wider of two NVSwitches wins") {
  MachineSpec m = two_sockets();
  m.vertices.push_back({Kind::nvswitch, "NVSwitch0", 0, 1});
  m.vertices.push_back({Kind::nvswitch, "NVSwitch1", 1, 1});
  for (const char* gpu : {"GPU0", "GPU1"}) {
    connect(m, gpu, "NVSwitch0", LinkKind::nvlink, 100e9);
    connect(m, gpu, "NVSwitch1", LinkKind::nvlink, 200e9);
  }
  MachineRoutes routes(m);
  CHECK(path_text(m, routes.between(0, 1)) == "GPU0 NVSwitch1 GPU1");
  CHECK(path_text(m, routes.between(0, 2)) == "GPU0 PLX0 CPU0 CPU1 PLX1 GPU2");
}

TEST_CASE("a same-socket detour of more hops beats the link between sockets") {
  MachineSpec m = with_vertices({{Kind::gpu, 2}, {Kind::pcie_switch, 3}, {Kind::cpu, 2}});
  connect(m, "GPU0", "CPU0", LinkKind::pcie, 32e9);
  connect(m, "GPU1", "CPU1", LinkKind::pcie, 32e9);
  connect(m, "CPU0", "CPU1", LinkKind::socket, 20e9);
  connect(m, "GPU0", "PLX0", LinkKind::pcie, 16e9);
  connect(m, "PLX0", "PLX1", LinkKind::pcie, 16e9);
  connect(m, "PLX1", "PLX2", LinkKind::pcie, 16e9);
  connect(m, "PLX2", "GPU1", LinkKind::pcie, 16e9);
  CHECK(path_text(m, MachineRoutes(m).between(0, 1)) == "GPU0 PLX0 PLX1 PLX2 GPU1");
}

TEST_CASE("equally near NICs are dealt out so that every GPU has its own where there are enough") {
  for (const char* id : {"dgx_a100_40gb", "dgx_h100", "dgx_b200"}) {
    MachineRoutes routes(*shipped().machine(id));
    std::set<int> used;
    for (int gpu = 0; gpu < 8; ++gpu) used.insert(routes.nic_of(gpu));
    CHECK(used.size() == 8);
  }
  MachineRoutes shared(*shipped().machine("dgx1v"));
  for (int gpu = 0; gpu < 8; ++gpu) CHECK(shared.nic_of(gpu) == gpu / 2);
}

TEST_CASE("only a GPU over NVLink relays to another rail") {
  MachineRoutes h100(*shipped().machine("dgx_h100"));
  for (int gpu = 0; gpu < 8; ++gpu)
    for (int nic = 0; nic < 8; ++nic) CHECK(h100.relay(gpu, nic) == (gpu == nic ? -1 : nic));
  CHECK(h100.relay(0, 8) == -1);
  MachineRoutes v100(*shipped().machine("dgx1v"));
  CHECK(v100.relay(0, 1) == 3);   // Two links to GPU3, one to GPU2.
  CHECK(v100.relay(0, 3) == -1);  // No NVLink to GPU6 or GPU7.
  MachineSpec pcie = two_sockets();
  CHECK(MachineRoutes(pcie).relay(0, 1) == -1);
}

TEST_CASE("wiring that leaves a GPU out is refused") {
  MachineSpec island = two_sockets();
  island.links.pop_back();
  Error e = error_of([&] { MachineRoutes routes(island); });
  CHECK(std::string(e.what()) == "machine 'test': GPU0 has no path to GPU2");
  MachineSpec no_nic = two_sockets();
  no_nic.links.erase(no_nic.links.begin() + 4);
  no_nic.links.erase(no_nic.links.begin() + 5);
  CHECK(error_of([&] { MachineRoutes routes(no_nic); }).kind == ErrorKind::usage);
}

}  // namespace rehearse
