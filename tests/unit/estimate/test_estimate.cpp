// Facts of the closed form's parts: kinds of ranks, the overlap rule, and what settings may change.

#include <cmath>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/estimate/estimate_lane.hpp"
#include "core/estimate/walk/rank_kinds.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/estimate/estimate_jobs.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// Llama 3 8B on sequences of 4,096 tokens.
Workload llama3_8b() {
  Workload w;
  w.network = ModelLibrary(kSource + "/scenarios/models").load("llama3_8b");
  w.training.sequence_length = 4096;
  return w;
}

}  // namespace

TEST_CASE("replicas that lie alike are one kind of rank, and a straggler is one of its own") {
  Workload w = llama3_8b();
  w.training.global_batch = 16;
  StrategySettings s;
  s.tp = 2;
  s.pp = 2;
  s.dp = s.dp_replicate = 4;
  const auto kinds = [&](const CostModel::Options& options) {
    const auto site = make_site("dgx_h100", 2, "rail_ndr", options);
    const Program program = lower(w, s, site->cluster);
    CallPrices prices(program, site->cost);
    return kinds_of_ranks(program, site->cost, 1, prices);
  };
  CHECK(kinds({}).kinds.size() == 2);
  CostModel::Options slow;
  slow.slowdown[0] = 1.5;
  // Rank 0; its partner in tensor parallelism; the stage after them; then the other replicas' stages. Lanes stand for
  // themselves now.
  const KindsOfRanks apart = kinds(slow);
  CHECK(apart.kinds.size() > 2);
  CHECK(apart.kinds.size() <= 8);
  int alone = 0;
  for (const RankKind& kind : apart.kinds) alone += kind.rank == 0 ? 1 : 0;
  CHECK(alone == 1);
}

TEST_CASE("one slow rank holds up the step as long as it computes longer") {
  Workload w = llama3_8b();
  w.training.global_batch = 32;
  StrategySettings s;
  s.tp = 8;
  s.dp = s.dp_replicate = 2;
  const auto step = [&](double factor) {
    CostModel::Options options;
    if (factor > 1) options.slowdown[3] = factor;
    const auto site = make_site("dgx_h100", 2, "rail_ndr", options);
    return estimate(lower(w, s, site->cluster), site->cost, s);
  };
  const Estimate even = step(1), slow = step(1.5);
  CHECK(slow.step_time > 1.2 * even.step_time);
  CHECK(slow.step_time < 1.5 * even.step_time);
}

TEST_CASE("kernels beside traffic follow the overlap rule") {
  const Interference half{0.5, 0.0};
  StageLane lane;
  lane.traffic.push_back({1.0, 3.0, half, TimeCategory::exposed_dp});
  // A kernel bound by SMs runs at half speed for two seconds.
  lane.compute({4.0, 1.0, 0.0, 4.0, {}}, 4.0);
  CHECK(std::abs(lane.free - 5.0) < 1e-12);
  CHECK(std::abs(lane.waits[TimeCategory::overlap_slowdown].value() - 1.0) < 1e-12);
  // Traffic found later to have met kernels already played costs the same.
  StageLane late;
  late.compute({4.0, 1.0, 0.0, 4.0, {}}, 4.0);
  late.add({1.0, 3.0, half, TimeCategory::exposed_pp});
  late.compute({4.0, 1.0, 0.0, 4.0, {}}, 4.0);
  CHECK(std::abs(late.free - 9.0) < 1e-12);
}

TEST_CASE("waiting beside traffic is exposed communication, the rest is bubble") {
  StageLane lane;
  lane.traffic.push_back({1.0, 2.0, {}, TimeCategory::exposed_dp});
  lane.wait_beside(4.0, TimeCategory::exposed_tp, TimeCategory::exposed_dp);
  CHECK(lane.free == 4.0);
  CHECK(lane.waits[TimeCategory::exposed_dp] == Seconds{1});
  CHECK(lane.waits[TimeCategory::bubble] == Seconds{3});
}

TEST_CASE("reducing under backward and gathering under forward save time, never more than they hide") {
  const auto site = make_site("dgx_h100", 1, "single_switch");
  Workload w = llama3_8b();
  w.training.global_batch = 16;
  StrategySettings s;
  s.tp = 2;
  s.dp = s.dp_replicate = 4;
  s.zero_stage = 1;
  const auto period = [&](bool reduce, bool gather) {
    s.overlap.grad_reduce = reduce;
    s.overlap.param_gather = gather;
    const Estimate e = estimate(lower(w, s, site->cluster), site->cost, s, 2);
    CHECK(std::abs(e.breakdown.total() / e.step_time - 1) < 1e-9);
    return e;
  };
  const Estimate none = period(false, false), reduced = period(true, false), both = period(true, true);
  CHECK(reduced.step_time < none.step_time);
  CHECK(both.step_time < reduced.step_time);
  CHECK(none.step_time - both.step_time <= none.breakdown[TimeCategory::exposed_dp]);
  CHECK(both.breakdown[TimeCategory::overlap_slowdown] > none.breakdown[TimeCategory::overlap_slowdown]);
}

TEST_CASE(
    "an update of divided state is as long as what the host does around its weights, where the kernels are shorter") {
  Workload w = llama3_8b();
  StrategySettings s;
  s.zero_stage = 1;
  const auto added = [&](int nodes) {
    const auto site = make_site("dgx_h100", nodes, "rail_ndr");
    s.dp = s.dp_replicate = 8 * nodes;
    w.training.global_batch = s.dp;
    const auto step = [&](bool on_device) {
      w.kernels.clip_on_device = on_device;
      return estimate(lower(w, s, site->cluster), site->cost, s);
    };
    const Estimate waits = step(false), runs_ahead = step(true);
    CHECK(waits.breakdown[TimeCategory::launch] > runs_ahead.breakdown[TimeCategory::launch]);
    return waits.step_time - runs_ahead.step_time;
  };
  double weights = 0;
  for (std::size_t b = 0; b < w.network.blocks.size(); ++b)
    weights += static_cast<double>(w.network.repeat[b]) * static_cast<double>(w.network.blocks[b].params.size());
  const Seconds host =
      weights * Seconds{load_calibration(kSource + "/topologies/calibration", *catalogue().gpu("h100_sxm5_80"))
                            .value("launch", "divided_update_s")};
  const Seconds few = added(1), many = added(16);
  CHECK(few > Seconds{0});
  CHECK(many > few);  // Each rank's kernels are shorter, what the host does is not.
  CHECK(many < host);
}

TEST_CASE(
    "a host that waits for every kernel adds its launches to the step, twice as many with twice the microbatches, and "
    "captured graphs take most of them away") {
  Workload w = llama3_8b();
  StrategySettings s;
  s.tp = 8;
  s.overlap = {.grad_reduce = false, .tp_backward = false, .pp = false};
  const auto step = [&](int microbatches, bool blocking, bool graphs) {
    w.kernels.cuda_graphs = graphs;
    w.kernels.launch_blocking = blocking;
    const auto site = make_site("dgx_h100", 1, "single_switch", CostModel::Options::of(w.kernels));
    w.training.global_batch = microbatches;
    const Estimate e = estimate(lower(w, s, site->cluster), site->cost, s);
    CHECK(std::abs(e.breakdown.total() / e.step_time - 1) < 1e-9);
    return e;
  };
  const Estimate waits = step(4, true, false), runs_ahead = step(4, false, false);
  CHECK(waits.step_time - waits.breakdown[TimeCategory::launch] <= runs_ahead.step_time);
  CHECK(waits.step_time > runs_ahead.step_time);
  const auto launches = [&](int microbatches, bool graphs) {
    return step(microbatches, true, graphs).breakdown[TimeCategory::launch];
  };
  // But for the update, once a step.
  CHECK_THAT((launches(8, false) - launches(4, false)) / (launches(4, false) - launches(2, false)),
             Catch::Matchers::WithinRel(2.0, 1e-6));
  CHECK(launches(4, true) < 0.11 * launches(4, false));
}

TEST_CASE("a host that waits for every kernel launches nothing beside it") {
  const auto site = make_site("dgx_h100", 1, "single_switch");
  Workload w = llama3_8b();
  w.training.global_batch = 8;
  w.kernels.launch_blocking = true;
  const auto refused = [&](auto change) {
    StrategySettings s;
    s.tp = s.pp = 2;
    s.dp = s.dp_replicate = 2;
    s.overlap = {.grad_reduce = false, .tp_backward = false, .pp = false};
    change(s);
    try {
      (void)lower(w, s, site->cluster);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(refused([](StrategySettings&) {}).empty());
  for (bool OverlapSettings::*overlap :
       {&OverlapSettings::grad_reduce, &OverlapSettings::tp_backward, &OverlapSettings::pp})
    CHECK(refused([&](StrategySettings& s) { s.overlap.*overlap = true; }).find("overlap.") != std::string::npos);
  CHECK(refused([](StrategySettings& s) {
          s.zero_stage = 2;
          s.pp = 1;
          s.dp = s.dp_replicate = 4;
        }).find("launch_blocking") != std::string::npos);
}

TEST_CASE(
    "weight gradients of the output layer that wait for the drain save time where stages drain, and nothing on the "
    "stage's own work") {
  const auto site = make_site("dgx_h100", 1, "single_switch");
  Workload w = llama3_8b();
  StrategySettings s;
  s.tp = 2;
  s.pp = 4;
  const auto step = [&](int microbatches, int deferred) {
    w.training.global_batch = microbatches;
    s.deferred_head_gradients = deferred;
    return estimate(lower(w, s, site->cluster), site->cost, s).step_time;
  };
  const Seconds plain = step(8, 0), some = step(8, 3), all = step(8, 8);
  CHECK(some < plain);
  CHECK(all < some);
  CHECK(all > 0.9 * plain);
  CHECK(step(8, 99) == all);
}
