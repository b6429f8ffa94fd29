// How the shipped machines are wired.

#include <map>
#include <set>

#include "tests/unit/hardware/topologies.hpp"

namespace rehearse {
namespace {

using Kind = MachineSpec::VertexKind;

int count(const MachineSpec& machine, Kind kind) {
  int n = 0;
  for (const auto& v : machine.vertices) n += v.kind == kind;
  return n;
}

/// Links from a vertex to vertices of a kind.
std::vector<MachineSpec::Link> links_between(const MachineSpec& machine, int vertex, Kind kind) {
  std::vector<MachineSpec::Link> out;
  for (const auto& link : machine.links)
    if ((link.a == vertex && machine.vertices[link.b].kind == kind) ||
        (link.b == vertex && machine.vertices[link.a].kind == kind))
      out.push_back(link);
  return out;
}

}  // namespace

TEST_CASE("DGX A100: 12 NVLinks from each GPU to six NVSwitch chips, 300 GB/s per direction") {
  auto machine = shipped().machine("dgx_a100_80gb");
  REQUIRE(count(*machine, Kind::nvswitch) == 1);
  for (int gpu = 0; gpu < 8; ++gpu) {
    auto links = links_between(*machine, gpu, Kind::nvswitch);
    REQUIRE(links.size() == 1);
    CHECK(links[0].count == 12);
    CHECK(links[0].rate == BytesPerSecond{300e9});
    CHECK(links[0].nccl_rate == BytesPerSecond{240e9});
  }
  CHECK(machine->vertices[8].chips == 6);
  CHECK_FALSE(machine->nvls);
}

TEST_CASE("DGX A100: eight NICs of 25 GB/s, two GPUs and two NICs on each of four PCIe switches") {
  auto machine = shipped().machine("dgx_a100_40gb");
  CHECK(machine->nics == 8);
  CHECK(machine->nic.rate == BytesPerSecond{25e9});
  CHECK(count(*machine, Kind::pcie_switch) == 4);
  for (int v = 0; v < static_cast<int>(machine->vertices.size()); ++v) {
    if (machine->vertices[v].kind != Kind::pcie_switch) continue;
    CHECK(links_between(*machine, v, Kind::gpu).size() == 2);
    CHECK(links_between(*machine, v, Kind::nic).size() == 2);
    CHECK(links_between(*machine, v, Kind::cpu).size() == 1);
  }
}

TEST_CASE("DGX-1V: 16 pairs of the hybrid cube mesh share NVLinks, six links per GPU") {
  auto machine = shipped().machine("dgx1v");
  std::map<std::pair<int, int>, int> bundles;
  for (const auto& link : machine->links)
    if (link.kind == MachineSpec::LinkKind::nvlink) {
      auto pair = std::minmax(link.a, link.b);
      CHECK(bundles.emplace(pair, link.count).second);
      CHECK(link.rate == link.count * BytesPerSecond{25e9});
    }
  CHECK(bundles.size() == 16);
  for (int gpu = 0; gpu < 8; ++gpu) CHECK(nvlinks_at(*machine, gpu) == 6);
  // Two quads of GPUs; the only links between them join each GPU to its twin.
  int across = 0;
  for (const auto& [pair, links] : bundles) {
    auto [a, b] = pair;
    if (a < 4 && b >= 4) {
      CHECK(b == a + 4);
      across += links;
    }
  }
  CHECK(across == 6);
}

TEST_CASE("DGX-1V: one NIC per PCIe switch, two switches per socket, sockets joined") {
  auto machine = shipped().machine("dgx1v");
  CHECK(machine->nics == 4);
  CHECK(machine->nic.rate == BytesPerSecond{12.5e9});
  int sockets = 0;
  for (const auto& link : machine->links) sockets += link.kind == MachineSpec::LinkKind::socket;
  CHECK(sockets == 1);
  for (int v = 0; v < static_cast<int>(machine->vertices.size()); ++v)
    if (machine->vertices[v].kind == Kind::cpu) CHECK(links_between(*machine, v, Kind::pcie_switch).size() == 2);
}

TEST_CASE("Hopper and Blackwell servers: one 50 GB/s NIC beside every GPU, multicast in the NVSwitch") {
  for (const char* id : {"dgx_h100", "dgx_h200", "dgx_b200"}) {
    INFO(id);
    auto machine = shipped().machine(id);
    CHECK(machine->nvls);
    CHECK(machine->nic.rate == BytesPerSecond{50e9});
    CHECK(machine->nics == machine->gpus);
    std::set<std::pair<int, int>> homes;
    for (const auto& link : machine->links) {
      Kind a = machine->vertices[link.a].kind;
      if ((a == Kind::gpu || a == Kind::nic) && machine->vertices[link.b].kind == Kind::pcie_switch)
        CHECK(homes.emplace(link.b, static_cast<int>(a)).second);
    }
    CHECK(homes.size() == 16);
  }
}

TEST_CASE("DGX-1 P100 has the pairs of DGX-1V with one link each, four per GPU") {
  auto pairs_of = [](const MachineSpec& machine) {
    std::set<std::pair<int, int>> pairs;
    for (const auto& link : machine.links)
      if (link.kind == MachineSpec::LinkKind::nvlink) pairs.emplace(std::min(link.a, link.b), std::max(link.a, link.b));
    return pairs;
  };
  auto pascal = shipped().machine("dgx1p");
  CHECK(pairs_of(*pascal) == pairs_of(*shipped().machine("dgx1v")));
  for (int gpu = 0; gpu < 8; ++gpu) CHECK(nvlinks_at(*pascal, gpu) == 4);
}

TEST_CASE("DGX-2: two boards of eight GPUs, joined by as many NVLinks as each board has") {
  auto machine = shipped().machine("dgx2");
  BytesPerSecond between, board;
  for (const auto& link : machine->links) {
    if (link.kind != MachineSpec::LinkKind::nvlink) continue;
    (machine->vertices[link.a].kind == Kind::nvswitch ? between : board) += link.rate;
  }
  CHECK(between == BytesPerSecond{48 * 25e9});  // 2.4 TB/s both directions together.
  CHECK(board == 2 * between);
  CHECK(count(*machine, Kind::pcie_switch) == 12);
}

TEST_CASE("an NVL72 rack: 18 trays of four GPUs, two CPUs and four NICs, one NVLink domain") {
  auto rack = shipped().machine("gb200_nvl72");
  CHECK(rack->gpus == 72);
  CHECK(rack->trays == 18);
  CHECK(rack->nics == 72);
  CHECK(count(*rack, Kind::gpu) == 72);
  CHECK(count(*rack, Kind::cpu) == 36);
  CHECK(count(*rack, Kind::nvswitch) == 1);
  CHECK(rack->vertices[72].chips == 18);
  BytesPerSecond all;
  std::map<MachineSpec::LinkKind, int> kinds;
  for (const auto& link : rack->links) {
    ++kinds[link.kind];
    if (link.kind == MachineSpec::LinkKind::nvlink) all += link.rate;
  }
  CHECK(all == BytesPerSecond{72 * 900e9});  // 130 TB/s both directions together.
  CHECK(kinds.at(MachineSpec::LinkKind::c2c) == 72);
  CHECK(kinds.at(MachineSpec::LinkKind::socket) == 18);
  std::set<std::string> names;
  for (const auto& v : rack->vertices) CHECK(names.insert(v.name).second);
  CHECK(names.contains("GPU71"));
  CHECK(names.contains("CPU35"));
}

TEST_CASE("a host without GPUs: each socket is a device on its own memory") {
  auto host = shipped().machine("cpu_2s_epyc_7742");
  CHECK(host->gpus == 2);
  CHECK(host->vertices[0].name == "Socket0");
  auto own = links_between(*host, 1, Kind::cpu);
  REQUIRE(own.size() == 1);
  CHECK(own[0].rate == shipped().gpu("epyc_7742")->memory_bandwidth);
  CHECK(host->vertices[own[0].b].index == 1);
}

TEST_CASE("p5: four adapters of 100 Gb/s beside each GPU stand as one, 3,200 Gb/s in all") {
  auto machine = shipped().machine("aws_p5_48xlarge");
  CHECK(machine->nics * machine->nic.rate == BytesPerSecond{400e9});
  for (int v = 0; v < static_cast<int>(machine->vertices.size()); ++v)
    if (machine->vertices[v].kind == Kind::pcie_switch) CHECK(links_between(*machine, v, Kind::nic).size() == 1);
}

}  // namespace rehearse
