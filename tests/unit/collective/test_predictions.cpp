// NCCL 2.28.9's recorded channels, cost tables and choices from machine files alone: nothing recorded goes in.

#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <numeric>

#include "core/cluster/make_cluster.hpp"
#include "core/collective/prepared_group.hpp"
#include "recorded.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;
using namespace rehearse::nccl;

namespace {

const Catalogue& catalogue_predictions() {
  static const Catalogue c(rehearse::testing::source_path("topologies"));
  return c;
}

std::vector<std::string> files_of(const std::string& recorded) {
  static const std::map<std::string, std::vector<std::string>> several{{"dgx1v", {"dgx1v", "dgx1v_16gb"}},
                                                                       {"dgx_a100", {"dgx_a100_40gb", "dgx_a100_80gb"}},
                                                                       {"dgx_h100", {"dgx_h100", "dgx_h200"}}};
  const auto at = several.find(recorded);
  return at == several.end() ? std::vector{recorded} : at->second;
}

PreparedGroup everything(const std::string& machine, int nodes) {
  const auto spec = catalogue_predictions().machine(machine);
  const Cluster cluster("test", {{spec, catalogue_predictions().gpu(spec->gpu), nodes}},
                        *catalogue_predictions().network("single_switch"));
  std::vector<DeviceId> all(std::size_t(cluster.device_count()));
  std::iota(all.begin(), all.end(), 0);
  return prepare(cluster, layout_of(cluster, all), Filter{});
}

bool same_predictions(const GraphResult& a, const GraphResult& b) {
  return a.channels == b.channels &&
         (b.channels == 0 ||
          (a.intra.value() == Approx(b.intra.value()) && a.inter.value() == Approx(b.inter.value()) &&
           a.intra_path == b.intra_path && a.inter_path == b.inter_path && a.same_channels == b.same_channels));
}

struct PredictionsCount {
  int values = 0, wrong = 0;
};

void compare_table(const recorded::Configuration& c, const TuningTable& table, PredictionsCount& count) {
  int available = 0;
  for (int o = 0; o < 5; ++o)
    for (int a = 0; a < kAlgorithms; ++a)
      for (int p = 0; p < kProtocols; ++p)
        available += table.at(CollectiveOp(o), Algorithm(a), Protocol(p)).bandwidth.value() > 0;
  CHECK(available == int(c.table.size()));
  for (const auto& cell : c.table) {
    const auto got = table.at(cell.op, cell.algorithm, cell.protocol);
    // One decimal was recorded.
    const bool same_cell = std::abs(got.latency.value() * 1e6 - cell.latency_us) < 0.051 &&
                           std::abs(got.bandwidth.value() / 1e9 - cell.GBps) < 0.051;
    INFO(name_of(cell.op) << " " << name_of(cell.algorithm) << " " << name_of(cell.protocol) << ": "
                          << got.latency.value() * 1e6 << " us " << got.bandwidth.value() / 1e9 << " GB/s, recorded "
                          << cell.latency_us << " " << cell.GBps);
    CHECK(same_cell);
    ++count.values;
    count.wrong += !same_cell;
  }
}

void compare_choices(const recorded::Configuration& c, const TuningTable& table, PredictionsCount& count) {
  for (const auto& want : c.choices) {
    const auto got = table.pick(want.op, Bytes{want.bytes});
    const bool same_choice = name_of(got.algorithm) == want.algorithm && name_of(got.protocol) == want.protocol &&
                             std::abs(got.time.value() * 1e6 - want.us) <= 1e-3 * want.us;
    INFO(name_of(want.op) << " " << want.bytes << " B: " << name_of(got.algorithm) << " " << name_of(got.protocol)
                          << " " << got.time.value() * 1e6 << " us, recorded " << want.algorithm << " " << want.protocol
                          << " " << want.us);
    CHECK(same_choice);
    ++count.values;
    count.wrong += !same_choice;
  }
}

}  // namespace

TEST_CASE("Machine files alone reproduce every channel, cost and choice recorded from NCCL 2.28.9") {
  PredictionsCount cells, choices;
  for (const auto& c : recorded::configurations())
    for (const auto& file : files_of(c.machine)) {
      INFO(file << ", " << c.shape.nodes << " nodes");
      const auto got = everything(file, c.shape.nodes);
      CHECK(got.shape.ranks == c.shape.ranks);
      CHECK(got.shape.nodes == c.shape.nodes);
      CHECK((got.shape.cpu == c.shape.cpu));
      CHECK(same_predictions(got.shape.search.ring, c.shape.search.ring));
      CHECK(same_predictions(got.shape.search.tree, c.shape.search.tree));
      CHECK(same_predictions(got.shape.search.nvls, c.shape.search.nvls));
      CHECK((got.shape.search.tree_pattern == c.shape.search.tree_pattern));
      CHECK(final_channels(got.shape) == c.channels);
      compare_table(c, got.table, cells);
      compare_choices(c, got.table, choices);
    }
  std::cout << "from machine files: " << cells.values << " table cells, " << cells.wrong << " differ; "
            << choices.values << " choices, " << choices.wrong << " differ\n";
  CHECK(cells.values >= 532);
  CHECK(choices.values >= 1664);
}
