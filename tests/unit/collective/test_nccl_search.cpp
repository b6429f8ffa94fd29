#include <cmath>
#include <iostream>
#include <set>

#include "core/collective/nccl_search.hpp"
#include "core/collective/node_wiring.hpp"
#include "machines.hpp"
#include "recorded.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::nccl;

namespace {

bool same_speed(const GraphResult& a, const GraphResult& b) {
  const auto near = [](BytesPerSecond x, BytesPerSecond y) { return std::abs(x.value() - y.value()) <= 1e-6 * y.value() + 1; };
  return a.channels == b.channels && (b.channels == 0 || (near(a.intra, b.intra) && near(a.inter, b.inter)));
}

std::string show(const GraphResult& g) {
  return std::to_string(g.channels) + " x " + std::to_string(g.intra.value() / 1e9) + "/" + std::to_string(g.inter.value() / 1e9);
}

struct Count { int all = 0, ring = 0, tree = 0, nvls = 0, pattern = 0, cells = 0; };

/// Cells of the resulting tables that are available in one and not in the other.
int cells_that_differ(const recorded::Search& s, const SearchResult& got, int cc) {
  CommunicatorShape a;
  a.nodes = s.nodes;
  a.ranks = s.nodes * int(s.gpus.size());
  a.min_compute_capability = a.max_compute_capability = cc;
  auto b = a;
  a.search = got;
  b.search = s.result;
  if (a.ranks < 2) return 0;
  const TuningTable x(a, Filter{}), y(b, Filter{});
  int out = 0;
  for (int o = 0; o < 5; ++o)
    for (const auto al : {Algorithm::ring, Algorithm::nvls, Algorithm::nvls_tree})
      for (int p = 0; p < kProtocols; ++p)
        out += (x.at(CollectiveOp(o), al, Protocol(p)).bandwidth.value() > 0) != (y.at(CollectiveOp(o), al, Protocol(p)).bandwidth.value() > 0);
  return out;
}

}  // namespace

TEST_CASE("The rule gives what NCCL's search found on every subset of an NVSwitch machine's GPUs") {
  std::map<std::pair<std::string, int>, Count> counts;
  for (const auto& s : recorded::searches()) {
    const auto m = machines::make(s.machine);
    const auto got = search_node(*m.spec, *m.gpu, s.gpus, s.nodes > 1);
    auto& c = counts[{s.machine, s.nodes}];
    const bool ring = same_speed(got.ring, s.result.ring), tree = same_speed(got.tree, s.result.tree),
               nvls = same_speed(got.nvls, s.result.nvls);
    const bool switched = s.machine != "dgx1v";
    const bool lone = wiring_of(*m.spec, s.gpus).lone_gpus > 0 && s.gpus.size() > 1;
    std::string digits;
    for (const int g : s.gpus) digits += std::to_string(g);
    INFO(s.machine << " {" << digits << "} nodes " << s.nodes << ": ring " << show(got.ring) << ", tree " << show(got.tree) << ", nvls "
                   << show(got.nvls) << "; recorded " << show(s.result.ring) << ", " << show(s.result.tree) << ", " << show(s.result.nvls));
    if (switched) {
      CHECK(ring);
      CHECK(nvls);
      CHECK((tree || (lone && s.nodes > 1)));
      CHECK(int(got.tree_pattern) == int(s.result.tree_pattern));
    }
    if (s.machine == "dgx1v" && s.gpus.size() == 8) CHECK((ring && tree));
    ++c.all;
    c.ring += ring;
    c.tree += tree;
    c.nvls += nvls;
    c.pattern += got.tree_pattern == s.result.tree_pattern;
    c.cells += cells_that_differ(s, got, m.gpu->compute_capability);
  }
  for (const auto& [key, c] : counts)
    std::cout << "search " << key.first << (key.second == 1 ? ", 1 node:  " : ", N nodes: ") << c.all << " subsets, ring equal " << c.ring
              << ", tree " << c.tree << ", nvls " << c.nvls << ", pattern " << c.pattern << "; availability of cells differs " << c.cells << "\n";
  CHECK(counts.size() == 10);
  CHECK(counts[{"dgx_a100", 2}].tree == 191);
  CHECK(counts[{"p4d", 2}].tree == 207);
  CHECK(counts[{"dgx1v", 1}].ring == 135);
}

TEST_CASE("Rings pack the direct links of a DGX-1V") {
  const auto m = machines::make("dgx1v");
  for (const auto& [gpus, rings] : std::vector<std::pair<std::vector<int>, int>>{
           {{0, 1, 2, 3, 4, 5, 6, 7}, 6}, {{0, 1, 2, 3}, 4}, {{0, 3}, 2}, {{0, 1}, 1}, {{0, 1, 2}, 2}, {{0, 1, 2, 3, 4, 5, 6}, 4}, {{0, 5}, 0}}) {
    auto left = wiring_of(*m.spec, gpus).bricks;
    const auto found = pack_rings(left);
    CHECK(int(found.size()) == rings);
    for (const auto& ring : found) {
      CHECK(std::set<int>(ring.begin(), ring.end()).size() == gpus.size());
      for (std::size_t i = 0; i < ring.size(); ++i) --left[std::size_t(ring[i])][std::size_t(ring[(i + 1) % ring.size()])];
    }
    for (const auto& row : left)
      for (const int spare : row) CHECK(spare >= 0);
  }
}

TEST_CASE("Nodes agree on the slowest") {
  const auto m = machines::make("dgx_h100");
  const std::vector<int> eight{0, 1, 2, 3, 4, 5, 6, 7}, two{0, 1};
  const auto a = search_node(*m.spec, *m.gpu, eight, true), b = search_node(*m.spec, *m.gpu, two, true);
  const auto both = agree(a, b);
  CHECK(both.ring.channels == 4);
  CHECK(both.ring.inter.value() == Approx(24e9));
  CHECK(both.nvls.channels == 2);
}
