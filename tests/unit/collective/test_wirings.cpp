// The search on any wiring: what NCCL 2.28.9's own search found on made-up machines and on damaged real ones.

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <numeric>
#include <random>

#include "core/collective/nccl/numberings.hpp"
#include "core/hardware/catalogue.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"
#include "wired.hpp"

using namespace rehearse;

namespace {

struct WiringsCount {
  int all = 0, equal = 0;
};

std::string digits(const std::vector<int>& gpus) {
  std::string out;
  for (const int g : gpus) out += std::to_string(g) + " ";
  return out;
}

WiringsCount compare(const wired::Case& c) {
  WiringsCount count;
  for (const auto& run : c.runs) {
    const auto got = nccl::search_node(c.machine, c.gpu, run.gpus, run.leaves_node);
    const bool equal = wired::same(got, run.result);
    INFO(c.name << ", " << c.change << ", GPUs " << digits(run.gpus)
                << (run.leaves_node ? "of several nodes" : "of one node"));
    INFO("found    " << wired::show(got));
    INFO("recorded " << wired::show(run.result));
    CHECK(equal);
    ++count.all;
    count.equal += equal;
  }
  return count;
}

std::vector<int> shuffled(int n, std::mt19937& random) {
  std::vector<int> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  std::shuffle(out.begin(), out.end(), random);
  return out;
}

}  // namespace

TEST_CASE("On random PCIe trees, NVLink meshes and NIC placements the search equals NCCL's") {
  WiringsCount total;
  std::map<int, WiringsCount> by_generation;
  for (const auto& c : wired::cases("nccl_2.28.9_random_wirings.json")) {
    const auto count = compare(c);
    for (WiringsCount* sum : {&total, &by_generation[c.gpu.compute_capability]}) {
      sum->all += count.all;
      sum->equal += count.equal;
    }
  }
  for (const auto& [cc, count] : by_generation)
    std::cout << "random wirings, compute capability " << cc << ": " << count.equal << " of " << count.all
              << " equal\n";
  std::cout << "random wirings: " << total.equal << " of " << total.all << " equal\n";
  CHECK(total.all >= 300);
}

TEST_CASE("A removed NVLink, NVSwitch uplink or NIC changes the channels as NCCL's search does") {
  std::map<std::string, wired::Run> whole;
  std::map<std::string, int> changed;
  WiringsCount total;
  for (const auto& c : wired::cases("nccl_2.28.9_damaged_machines.json")) {
    const auto count = compare(c);
    total.all += count.all;
    total.equal += count.equal;
    for (const auto& run : c.runs) {
      const std::string key = c.name + (run.leaves_node ? " across" : "");
      if (c.change == "whole") whole[key] = run;
      changed[c.name] += !wired::same(whole.at(key).result, run.result);
    }
  }
  std::cout << "whole and damaged machines: " << total.equal << " of " << total.all << " equal\n";
  for (const auto* name : {"dgx1v", "dgx1p", "dgx_a100", "p4d", "dgx_h100", "dgx_b200", "p5"}) {
    INFO(name);
    CHECK(changed[name] > 0);
  }
}

TEST_CASE("Names, numbers of devices and the order of a file do not count") {
  const Catalogue catalogue(rehearse::testing::source_path("topologies"));
  std::mt19937 random(7);
  int compared = 0;
  for (const auto& id : catalogue.names(Catalogue::Kind::machine)) {
    const auto machine = catalogue.machine(id);
    const auto gpu = catalogue.gpu(machine->gpu);
    if (machine->gpus > 16 || gpu->compute_capability == 0) continue;
    std::vector<int> all(static_cast<std::size_t>(machine->gpus));
    std::iota(all.begin(), all.end(), 0);
    for (const bool leaves : {false, true}) {
      if (leaves && machine->nics == 0) continue;
      const auto want = nccl::search_best_numbered(*machine, *gpu, all, leaves);
      const auto other = wired::renumbered(*machine, shuffled(machine->gpus, random), shuffled(machine->nics, random));
      const auto got = nccl::search_best_numbered(other, *gpu, all, leaves);
      INFO(id << (leaves ? ", several nodes: " : ", one node: ") << wired::show(want));
      INFO("renumbered: " << wired::show(got));
      CHECK(wired::same(want, got));
      ++compared;
    }
  }
  CHECK(compared >= 20);
}

TEST_CASE("Channels that a machine's file records take the place of the search, for the whole node") {
  const Catalogue catalogue(rehearse::testing::source_path("topologies"));
  MachineSpec machine = *catalogue.machine("dgx_a100_80gb");
  const auto gpu = catalogue.gpu(machine.gpu);
  const std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7}, half{0, 1, 2, 3};
  const auto searched = nccl::search_best_numbered(machine, *gpu, all, false);
  const auto part = nccl::search_best_numbered(machine, *gpu, half, false);
  machine.nccl_graphs.push_back({0, 4, 2, BytesPerSecond{12e9}, BytesPerSecond{12e9}, "SYS", "PIX", 0, true, {}});
  const auto recorded = nccl::search_best_numbered(machine, *gpu, all, false);
  CHECK(recorded.ring.channels == 2);
  CHECK(recorded.ring.intra == BytesPerSecond{12e9});
  CHECK((recorded.ring.intra_path == nccl::PathClass::sys));
  CHECK(recorded.tree.channels == searched.tree.channels);
  CHECK(wired::same(part, nccl::search_best_numbered(machine, *gpu, half, false)));
  machine.nccl_graphs.back().type_intra = "NVX";
  CHECK_THROWS_AS(nccl::search_best_numbered(machine, *gpu, all, false), Error);
}
