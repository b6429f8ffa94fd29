#include <cmath>
#include <iostream>

#include "core/base/error.hpp"
#include "recorded.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::nccl;

namespace {

CommunicatorShape shape_of(const std::string& machine, int nodes) {
  for (const auto& c : recorded::configurations())
    if (c.machine == machine && c.shape.nodes == nodes) return c.shape;
  FAIL("no recorded configuration of " << machine);
  return {};
}

}  // namespace

TEST_CASE("The table equals the one NCCL 2.28.9 printed, cell by cell") {
  int cells = 0, wrong = 0;
  for (const auto& c : recorded::configurations()) {
    const TuningTable table(c.shape, Filter{});
    int available = 0;
    for (int o = 0; o < 5; ++o)
      for (int a = 0; a < kAlgorithms; ++a)
        for (int p = 0; p < kProtocols; ++p)
          available += table.at(CollectiveOp(o), Algorithm(a), Protocol(p)).bandwidth.value() > 0;
    CHECK(available == int(c.table.size()));
    for (const auto& cell : c.table) {
      const auto got = table.at(cell.op, cell.algorithm, cell.protocol);
      INFO(c.machine << " x" << c.shape.nodes << " " << name_of(cell.op) << " " << name_of(cell.algorithm) << " "
                     << name_of(cell.protocol) << ": " << got.latency.value() * 1e6 << " us "
                     << got.bandwidth.value() / 1e9 << " GB/s, recorded " << cell.latency_us << " " << cell.GBps);
      const bool same = std::abs(got.latency.value() * 1e6 - cell.latency_us) < 0.051 &&
                        std::abs(got.bandwidth.value() / 1e9 - cell.GBps) < 0.051;
      CHECK(same);
      ++cells;
      wrong += !same;
    }
  }
  std::cout << "NCCL 2.28.9 table: " << cells << " cells (a latency and a bandwidth each), " << wrong << " differ\n";
  CHECK(cells == 532);
}

TEST_CASE("The choice and its time equal NCCL 2.28.9's for every recorded size") {
  int picks = 0, wrong = 0;
  for (const auto& c : recorded::configurations()) {
    const TuningTable table(c.shape, Filter{});
    CHECK(final_channels(c.shape) == c.channels);
    for (const auto& want : c.choices) {
      const auto got = table.pick(want.op, Bytes{want.bytes});
      INFO(c.machine << " x" << c.shape.nodes << " " << name_of(want.op) << " " << want.bytes << " B: "
                     << name_of(got.algorithm) << " " << name_of(got.protocol) << " " << got.time.value() * 1e6
                     << ", recorded " << want.algorithm << " " << want.protocol << " " << want.us);
      const double tolerance = 0.006 + 2e-6 * want.us;  // two printed decimals, computed in single precision
      const bool same = name_of(got.algorithm) == want.algorithm && name_of(got.protocol) == want.protocol &&
                        std::abs(got.time.value() * 1e6 - want.us) < tolerance;
      CHECK(same);
      ++picks;
      wrong += !same;
    }
  }
  std::cout << "NCCL 2.28.9 choices: " << picks << ", " << wrong << " differ\n";
  CHECK(picks == 1664);
}

TEST_CASE("A log of three DGX H100 nodes prints the times of the table") {
  // NVIDIA/nccl issue 1453: "4096 Bytes -> Algo 0 proto 0 time 25.874907", "8192 ... 26.549810".
  auto shape = shape_of("dgx_h100", 4);
  shape.nodes = 3;
  shape.ranks = 24;
  const TuningTable table(shape, Filter{});
  CHECK(table.time(CollectiveOp::all_reduce, Algorithm::tree, Protocol::ll, Bytes{4096}).value() * 1e6 ==
        Approx(25.874907).epsilon(1e-5));
  CHECK(table.time(CollectiveOp::all_reduce, Algorithm::tree, Protocol::ll, Bytes{8192}).value() * 1e6 ==
        Approx(26.549810).epsilon(1e-5));
}

TEST_CASE("Restrictions follow NCCL_ALGO and NCCL_PROTO") {
  const auto shape = shape_of("dgx_h100", 1);
  const auto pick = [&](const char* algo, const char* proto, CollectiveOp op) {
    return TuningTable(shape, Filter::parse(algo, proto)).pick(op, Bytes{1e9});
  };
  CHECK(pick("", "", CollectiveOp::all_reduce).algorithm == Algorithm::nvls);
  CHECK(pick("Ring", "", CollectiveOp::all_reduce).algorithm == Algorithm::ring);
  CHECK(pick("^NVLS", "", CollectiveOp::all_reduce).algorithm == Algorithm::ring);
  CHECK(pick("tree", "ll128", CollectiveOp::all_reduce).protocol == Protocol::ll128);
  CHECK(pick("all_reduce:tree;all_gather:ring", "", CollectiveOp::all_gather).algorithm == Algorithm::ring);
  CHECK(pick("AllReduce:Tree", "", CollectiveOp::all_reduce).algorithm == Algorithm::tree);
  CHECK(pick("AllReduce:Tree", "", CollectiveOp::all_gather).algorithm ==
        pick("", "", CollectiveOp::all_gather).algorithm);
  CHECK_THROWS_AS(pick("Tree", "", CollectiveOp::all_gather), Error);
  CHECK_THROWS_WITH(Filter::parse("Rng", ""), Catch::Matchers::ContainsSubstring("Rng"));
}

TEST_CASE("LL128 is off across PCIe unless it is asked for") {
  const auto shape = shape_of("pcie4_l40s_noswitch", 1);
  const auto at = [&](const char* proto) {
    return TuningTable(shape, Filter::parse("", proto))
        .at(CollectiveOp::all_reduce, Algorithm::ring, Protocol::ll128)
        .bandwidth;
  };
  CHECK(at("").value() == 0);
  CHECK(at("LL128").value() > 0);
}

TEST_CASE("Small messages use fewer channels, large ones all") {
  const TuningTable table(shape_of("dgx_a100", 1), Filter{});
  CHECK(table.pick(CollectiveOp::all_reduce, Bytes{8}).channels == 1);
  CHECK(table.pick(CollectiveOp::all_reduce, Bytes{1e9}).channels == 24);
  const TuningTable simple(shape_of("dgx_a100", 1), Filter::parse("Ring", "Simple"));
  CHECK(simple.pick(CollectiveOp::all_reduce, Bytes{768.0 * 1024}).channels == 24);
  CHECK(simple.pick(CollectiveOp::all_reduce, Bytes{700.0 * 1024}).channels < 24);
}
