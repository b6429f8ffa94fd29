#include "machines.hpp"

#include <array>
#include <map>
#include <stdexcept>

#include "core/hardware/catalogue.hpp"
#include "tests/support/source_path.hpp"

namespace machines {
namespace {

using namespace rehearse;
using MachinesKind = MachineSpec::VertexKind;
using MachinesLinkKind = MachineSpec::LinkKind;

constexpr double kGB = 1e9;

struct Recipe {
  const char* id;
  const char* generation;
  int compute_capability;
  int bricks;                ///< Per GPU, to the NVSwitch; 0: hybrid cube mesh.
  double brick, nccl_brick;  ///< GB/s.
  double pcie, nccl_pcie;    ///< GB/s of a slot.
  int gpus_per_switch, nics_per_switch;
  double nic;  ///< GB/s.
  const char* cpu;
  double socket;  ///< As NCCL counts it.
  bool nvls;
};

constexpr std::array<Recipe, 5> kRecipes{{
    {"dgx1v", "volta", 70, 0, 25, 20, 15.75, 12, 2, 1, 12.5, "intel", 6, false},
    {"dgx_a100", "ampere", 80, 12, 25, 20, 31.5, 24, 2, 2, 25, "amd", 16, false},
    {"p4d", "ampere", 80, 12, 25, 20, 31.5, 24, 2, 1, 12.5, "intel", 10, false},
    {"dgx_h100", "hopper", 90, 18, 25, 20.6, 63, 48, 1, 1, 50, "intel", 22, true},
    {"dgx_b200", "blackwell", 100, 18, 50, 40.1, 63, 48, 1, 1, 50, "intel", 40, true},
}};

// Bricks between two GPUs of a DGX-1V.
constexpr std::array<std::array<int, 3>, 16> kCubeMesh{{{0, 1, 1},
                                                        {0, 2, 1},
                                                        {0, 3, 2},
                                                        {0, 4, 2},
                                                        {1, 2, 2},
                                                        {1, 3, 1},
                                                        {1, 5, 2},
                                                        {2, 3, 2},
                                                        {2, 6, 1},
                                                        {3, 7, 1},
                                                        {4, 5, 1},
                                                        {4, 6, 1},
                                                        {4, 7, 2},
                                                        {5, 6, 2},
                                                        {5, 7, 1},
                                                        {6, 7, 2}}};

class MachinesBuilder {
 public:
  explicit MachinesBuilder(const Recipe& r) : r_(r) {
    m_.id = m_.name = r.id;
    m_.gpu = std::string(r.generation) + "_gpu";
    m_.gpus = 8;
    m_.cpu_vendor = r.cpu;
    m_.sockets = 2;
    m_.nvls = r.nvls;
    m_.nic = {"nic", BytesPerSecond{r.nic * kGB}};
    m_.nics = 8 / r.gpus_per_switch * r.nics_per_switch;
  }

  MachineSpec run() {
    int gpu[8];
    for (int g = 0; g < 8; ++g) gpu[g] = add(MachinesKind::gpu, "GPU", g);
    const int cpu[2] = {add(MachinesKind::cpu, "CPU", 0), add(MachinesKind::cpu, "CPU", 1)};
    link(cpu[0], cpu[1], MachinesLinkKind::socket, 1, r_.socket * 2, r_.socket);
    const int switches = 8 / r_.gpus_per_switch;
    for (int s = 0; s < switches; ++s) {
      const int plx = add(MachinesKind::pcie_switch, "PLX", s);
      link(plx, cpu[s / (switches / 2)], MachinesLinkKind::pcie, 1, r_.pcie, r_.nccl_pcie);
      for (int k = 0; k < r_.gpus_per_switch; ++k)
        link(gpu[s * r_.gpus_per_switch + k], plx, MachinesLinkKind::pcie, 1, r_.pcie, r_.nccl_pcie);
      for (int k = 0; k < r_.nics_per_switch; ++k)
        link(add(MachinesKind::nic, "NIC", s * r_.nics_per_switch + k), plx, MachinesLinkKind::pcie, 1, r_.pcie,
             r_.nccl_pcie);
    }
    if (r_.bricks == 0) {
      for (const auto& [a, b, n] : kCubeMesh)
        link(gpu[a], gpu[b], MachinesLinkKind::nvlink, n, n * r_.brick, n * r_.nccl_brick);
    } else {
      const int nvswitch = add(MachinesKind::nvswitch, "NVSwitch", 0);
      for (const int g : gpu)
        link(g, nvswitch, MachinesLinkKind::nvlink, r_.bricks, r_.bricks * r_.brick, r_.bricks * r_.nccl_brick);
    }
    return m_;
  }

 private:
  int add(MachinesKind kind, const char* name, int index) {
    m_.vertices.push_back({kind, name + std::to_string(index), index});
    return int(m_.vertices.size()) - 1;
  }
  void link(int a, int b, MachinesLinkKind kind, int count, double rate, double nccl) {
    MachineSpec::Link l{};
    l.a = a;
    l.b = b;
    l.kind = kind;
    l.count = count;
    l.rate = BytesPerSecond{rate * kGB};
    l.nccl_rate = BytesPerSecond{nccl * kGB};
    m_.links.push_back(l);
  }

  const Recipe& r_;
  MachineSpec m_;
};

}  // namespace

namespace {

/// Constants of a generation, as any of its shipped GPUs has them.
std::shared_ptr<const rehearse::CollectiveConstants> constants(const std::string& generation) {
  static const rehearse::Catalogue catalogue(rehearse::testing::source_path("topologies"));
  static const std::map<std::string, const char*> gpus{
      {"volta", "v100_sxm2_32"}, {"ampere", "a100_sxm4_80"}, {"hopper", "h100_sxm5_80"}, {"blackwell", "b200_sxm"}};
  return catalogue.gpu(gpus.at(generation))->collectives;
}

}  // namespace

Machine make(const std::string& id) {
  for (const auto& r : kRecipes) {
    if (id != r.id) continue;
    GpuSpec gpu;
    gpu.id = gpu.name = std::string(r.generation) + "_gpu";
    gpu.generation = r.generation;
    gpu.compute_capability = r.compute_capability;
    gpu.sm_count = 108;
    gpu.nvlink =
        NvlinkSpec{1, r.bricks == 0 ? 6 : r.bricks, BytesPerSecond{r.brick * kGB}, BytesPerSecond{r.nccl_brick * kGB}};
    gpu.collectives = constants(r.generation);
    return {std::make_shared<const MachineSpec>(MachinesBuilder(r).run()), std::make_shared<const GpuSpec>(gpu)};
  }
  throw std::runtime_error("no machine " + id);
}

Cluster cluster(const std::string& id, int nodes) {
  const auto m = make(id);
  NetworkSpec network;
  network.id = network.name = "switch";
  network.kind = "single_switch";
  return Cluster(id + "_cluster", {{m.spec, m.gpu, nodes}}, network);
}

}  // namespace machines
