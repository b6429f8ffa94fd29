#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "core/base/error.hpp"
#include "core/collective/nccl/graph_passes.hpp"
#include "core/collective/nccl/nccl_search.hpp"
#include "core/hardware/catalogue.hpp"
#include "machines.hpp"
#include "recorded.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"
#include "wired.hpp"

using namespace rehearse;
using namespace rehearse::nccl;

namespace {

struct NcclSearchCount {
  int all = 0, equal = 0;
};

/// NVLinks that all channels of a ring take together, one direction, must be there.
void check_bricks(const MachineSpec& m, const std::vector<int>& gpus, const RingOrders& rings) {
  std::map<std::pair<int, int>, int> left;
  for (const auto& l : m.links)
    if (l.kind == MachineSpec::LinkKind::nvlink) {
      const int a = m.vertices[std::size_t(l.a)].index, b = m.vertices[std::size_t(l.b)].index;
      left[{a, b}] += l.count;
      left[{b, a}] += l.count;
    }
  for (const auto& ring : rings) {
    CHECK(std::set<int>(ring.begin(), ring.end()).size() == gpus.size());
    for (std::size_t i = 0; i < ring.size(); ++i)
      --left[{gpus[std::size_t(ring[i])], gpus[std::size_t(ring[(i + 1) % ring.size()])]}];
  }
  for (const auto& [pair, spare] : left) CHECK(spare >= 0);
}

}  // namespace

TEST_CASE("The search finds what NCCL's found on subsets of the GPUs of five machines") {
  std::map<std::pair<std::string, int>, NcclSearchCount> counts;
  int turn = 0;
  for (const auto& s : recorded::searches()) {
    if (s.gpus.size() < 8 && turn++ % 12 != 0) continue;  // every twelfth: all 2510 are equal, and take 20 s
    const auto m = machines::make(s.machine);
    const auto got = search_node(*m.spec, *m.gpu, s.gpus, s.nodes > 1);
    NodeSearch want;
    static_cast<SearchResult&>(want) = s.result;
    want.parts = s.parts;
    std::string digits;
    for (const int g : s.gpus) digits += std::to_string(g);
    INFO(s.machine << " {" << digits << "} nodes " << s.nodes << ": " << wired::show(got));
    INFO("recorded " << wired::show(want));
    const bool equal = wired::same(got, want);
    CHECK(equal);
    auto& c = counts[{s.machine, s.nodes}];
    ++c.all;
    c.equal += equal;
  }
  for (const auto& [key, c] : counts)
    std::cout << "search " << key.first << (key.second == 1 ? ", 1 node:  " : ", N nodes: ") << c.equal << " of "
              << c.all << " subsets equal\n";
  CHECK(counts.size() == 10);
}

TEST_CASE("Rings of a DGX-1V take no more NVLinks than there are") {
  const auto m = machines::make("dgx1v");
  for (const auto& [gpus, rings] : std::vector<std::pair<std::vector<int>, int>>{
           {{0, 1, 2, 3, 4, 5, 6, 7}, 6}, {{0, 1, 2, 3}, 4}, {{0, 1, 2}, 2}, {{4, 5, 6, 7}, 4}}) {
    const auto found = node_rings(*m.spec, *m.gpu, gpus);
    CHECK(int(found.size()) == rings);
    check_bricks(*m.spec, gpus, found);
  }
  const NodeRings once;
  const std::vector<int> four{0, 1, 2, 3};
  CHECK(&once.of(*m.spec, *m.gpu, four) == &once.of(*m.spec, *m.gpu, four));
  const auto h100 = machines::make("dgx_h100");
  CHECK(node_rings(*h100.spec, *h100.gpu, four) == RingOrders{{0, 1, 2, 3}});
}

TEST_CASE("Paths of a DGX-1V: NVLink, over one GPU, and the network where a group leaves the relay out") {
  const auto m = machines::make("dgx1v");
  const std::vector<int> eight{0, 1, 2, 3, 4, 5, 6, 7}, pair{0, 5};
  const System whole = system_of(*m.spec, *m.gpu, eight), two = system_of(*m.spec, *m.gpu, pair);
  const Paths paths(whole), alone(two);
  CHECK((paths.gpu_to_gpu(0, 3).kind == PathClass::nvlink));
  CHECK(paths.gpu_to_gpu(0, 3).rate == 40);
  CHECK((paths.gpu_to_gpu(0, 5).kind == PathClass::nvlink_relay));
  CHECK((alone.gpu_to_gpu(0, 1).kind == PathClass::net));  // the NICs are nearer ...
  CHECK(alone.gpu_to_gpu(0, 1).rate == 6);                 // ... than the other socket
  CHECK((paths.gpu_to_net(0, 0).kind == PathClass::pix));
  CHECK((paths.gpu_to_net(2, 0).kind == PathClass::pxn));
  CHECK((paths.net_to_gpu(0, 2).kind == PathClass::phb));  // relays only send
}

TEST_CASE("GPUs that reach their NICs faster than each other are nodes of their own") {
  const Catalogue catalogue(rehearse::testing::source_path("topologies"));
  auto machine = *catalogue.machine("pcie8_l40s_2sw");
  const auto gpu = catalogue.gpu(machine.gpu);
  const std::vector<int> eight{0, 1, 2, 3, 4, 5, 6, 7};
  CHECK(search_node(machine, *gpu, eight, false).parts == 1);  // 22 GB/s between sockets, 12.5 through a NIC
  machine.nic.rate = BytesPerSecond{50e9};                     // now 24, what the NIC's slot carries
  const auto found = search_node(machine, *gpu, eight, false);
  CHECK(found.parts == 2);
  CHECK((found.ring.intra_path == PathClass::pix));
}

TEST_CASE("Nodes agree on the slowest") {
  const auto m = machines::make("dgx_h100");
  const std::vector<int> eight{0, 1, 2, 3, 4, 5, 6, 7}, two{0, 1};
  const auto a = search_node(*m.spec, *m.gpu, eight, true), b = search_node(*m.spec, *m.gpu, two, true);
  const auto both = agree(a, b);
  CHECK(both.ring.channels == 4);
  CHECK(both.ring.inter.value() == Approx(24e9));
  CHECK(both.nvls.channels == 2);
  CHECK_THROWS_AS(search_node(*m.spec, *m.gpu, {}, true), Error);
}
