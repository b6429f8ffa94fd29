#include "core/search/bounds/plan_traffic.hpp"

#include "core/config/settings/strategy.hpp"
#include "core/price/host_copies.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/search/jobs.hpp"

using namespace rehearse;
using namespace rehearse::test;

TEST_CASE("ZeRO 3 gathers weights twice and scatters gradients once for each microbatch, ZeRO 2 scatters alone") {
  const SearchJob job("gpt2_xl", "dgx_a100_80gb", 1, 32, 1024);
  const SearchProblem problem = job.problem();
  PlanTraffic traffic(problem);
  StrategySettings s = job.job.strategy;
  const Bytes weights{2e9}, gradients{4e9};
  const auto least = [&](int zero) {
    s.zero_stage = zero;
    return traffic.over_replicas(s, weights, gradients, 1);
  };
  std::vector<DeviceId> group;
  for (int d = 0; d < 8; ++d) group.push_back(d);
  const Seconds gather = problem.cost.collectives().choose(CollectiveOp::all_gather, weights, group).time,
                scatter = problem.cost.collectives().choose(CollectiveOp::reduce_scatter, gradients, group).time;
  CHECK(least(0) == Seconds{0});
  CHECK(least(1) == Seconds{0});
  // Sizes are rounded down by a sixteenth of a doubling at most.
  CHECK(least(2) <= scatter * kTrafficMargin);
  CHECK(least(2) >= scatter * (kTrafficMargin * 0.95));
  CHECK(least(3) <= (gather * 2 + scatter) * kTrafficMargin);
  CHECK(least(3) >= (gather * 2 + scatter) * (kTrafficMargin * 0.95));
}

TEST_CASE(
    "FSDP over several stages keeps what it gathered: no microbatch waits for replicas, but for copies of what is "
    "whole") {
  const SearchJob job("gpt2_xl", "dgx_a100_80gb", 1, 32, 1024);
  const SearchProblem problem = job.problem();
  PlanTraffic traffic(problem);
  StrategySettings s = job.job.strategy;
  s.fsdp.enabled = true;
  s.dp_shard = s.dp;
  s.dp_replicate = 1;
  CHECK(traffic.over_replicas(s, Bytes{2e9}, Bytes{4e9}, 1) > Seconds{0});
  s.pp = 2;
  s.dp = s.dp_shard = 4;
  CHECK(traffic.over_replicas(s, Bytes{2e9}, Bytes{4e9}, 1) == Seconds{0});
  const LayerPasses layer{Seconds{1e-3}, Seconds{2e-3}, Bytes{1e6}, true};
  CHECK(traffic.waits_of_passes(s, Bytes{1e8}, Bytes{2e8}, layer, 4) > Seconds{0});
  s.fsdp.enabled = false;
  CHECK(traffic.waits_of_passes(s, Bytes{1e8}, Bytes{2e8}, layer, 4) == Seconds{0});
}

TEST_CASE("copies of activations that are longer than the passes beside them hold those up") {
  const SearchJob job("gpt2_xl", "dgx_a100_80gb", 1, 32, 1024);
  const SearchProblem problem = job.problem();
  const PlanTraffic traffic(problem);
  const Bytes kept{1e9};
  const Seconds out = kept / copy_rate(problem.cluster, HostPaths(problem.cluster), 0, false);
  CHECK(traffic.waits_for_moves(kept, out * 10, out * 10).of(5) == Seconds{0});
  const MoveWaits waits = traffic.waits_for_moves(kept, out * 0.5, out * 10);
  CHECK(waits.each > Seconds{0});
  CHECK(waits.each <= out * 0.5);
  CHECK(waits.of(0) == Seconds{0});
  CHECK(waits.of(3) <= waits.each * 3);
}

TEST_CASE("optimizer state in host memory is updated there") {
  const SearchJob job("gpt2_xl", "dgx_a100_80gb", 1, 32, 1024);
  const SearchProblem problem = job.problem();
  const PlanTraffic traffic(problem);
  StrategySettings s = job.job.strategy;
  CHECK(traffic.update_on_host(s, Bytes{2e9}, Bytes{4e9}, Bytes{12e9}) == Seconds{0});
  s.offload = Offload::optimizer;
  const Seconds whole = traffic.update_on_host(s, Bytes{2e9}, Bytes{4e9}, Bytes{12e9});
  CHECK(whole > Seconds{0});
  s.zero_stage = 1;
  CHECK(traffic.update_on_host(s, Bytes{2e9}, Bytes{4e9}, Bytes{12e9}) == whole / 8);
}
