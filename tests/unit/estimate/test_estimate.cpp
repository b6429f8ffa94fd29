// Facts of the closed form's parts: the schedule's recurrence on hand-made stages, the overlap rule, and what settings
// may change.

#include <cmath>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/estimate/estimate_pipeline.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/estimate/estimate_jobs.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr double kForward = 1.0, kBackward = 2.0;

/// Stages of chunks that each take 1 forward and 2 backward, messages of `message` seconds between neighbours.
std::vector<Stage> equal_stages(const Schedule& schedule, const PipelineShape& shape, double message = 0) {
  const int chunks = shape.stages * shape.virtual_stages;
  std::vector<Stage> out(static_cast<std::size_t>(shape.stages));
  for (int c = 0; c < chunks; ++c) {
    const int stage = schedule.stage_of(c, shape);
    auto& passes = nth(out, stage).chunks[c];
    for (const int direction : {0, 1}) {
      StagePass& pass = nth(passes, direction);
      const int next = direction == 0 ? c + 1 : c - 1, before = direction == 0 ? c - 1 : c + 1;
      const auto remote = [&](int other) {
        return other >= 0 && other < chunks && schedule.stage_of(other, shape) != stage;
      };
      pass.work.seconds = (direction == 0 ? kForward : kBackward) / shape.virtual_stages;
      pass.message.seconds = pass.incoming_seconds = message;
      pass.peer = remote(next) ? schedule.stage_of(next, shape) : -1;
      pass.receives = remote(before);
    }
  }
  return out;
}

/// Llama 3 8B on sequences of 4,096 tokens.
Workload llama3_8b() {
  Workload w;
  w.network = ModelLibrary(kSource + "/scenarios/models").load("llama3_8b");
  w.training.sequence_length = 4096;
  return w;
}

PipelineState idle(const std::vector<Stage>& stages) {
  return {std::vector<StageLane>(stages.size()), std::vector<EventTimes>(stages.size())};
}

double duration(const std::vector<Stage>& stages, const Schedule& schedule, const PipelineShape& shape,
                bool blocking = false) {
  const PipelineState end = PipelineRecurrence(stages, schedule, shape, blocking).run(idle(stages));
  double last = 0;
  for (const StageLane& lane : end.lanes) last = std::max({last, lane.free, lane.held});
  return last;
}

bool runs(const Schedule& schedule, const PipelineShape& shape) {
  try {
    schedule.check(shape);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("equal stages and free messages idle for the schedule's bubble, however many microbatches") {
  int seen = 0;
  for (const auto& entry : schedules().entries())
    for (const int p : {1, 2, 4, 8})
      for (const int v : {1, 2, 3})
        for (const int m : {1, 2, 8, 24, 512}) {
          const PipelineShape shape{p, v, m};
          if (!runs(*entry.value, shape) || m < p || entry.value->splits_backward()) continue;  // Those are played.
          INFO(entry.name << " p " << p << " v " << v << " m " << m);
          const double ideal = m * (kForward + kBackward);
          CHECK(std::abs(duration(equal_stages(*entry.value, shape), *entry.value, shape) /
                             (ideal * (1 + entry.value->bubble_ratio(shape))) -
                         1) < 1e-9);
          ++seen;
        }
  CHECK(seen > 30);
}

TEST_CASE("a slow last stage sets the pace, the others only fill and drain") {
  const Schedule& schedule = *schedules().at("1f1b").value;
  for (const int m : {4, 40, 400}) {
    const PipelineShape shape{4, 1, m};
    auto stages = equal_stages(schedule, shape);
    for (StagePass& pass : stages.back().chunks.at(3)) pass.work.seconds *= 1.25;
    CHECK(std::abs(duration(stages, schedule, shape) -
                   (3 * (kForward + kBackward) + m * 1.25 * (kForward + kBackward))) < 1e-6);
  }
}

TEST_CASE("messages cost time, and more where they hold their sender") {
  for (const auto& entry : schedules().entries()) {
    const PipelineShape shape{4, entry.name == "interleaved_1f1b" ? 2 : 1, 16};
    // Split schedules are played; where one microbatch is under way at a time, nothing runs beside its messages.
    if (entry.value->splits_backward() || entry.value->chunks_in_flight(0, shape) == 1) continue;
    const double free = duration(equal_stages(*entry.value, shape), *entry.value, shape);
    const auto stages = equal_stages(*entry.value, shape, 0.05);
    const double beside = duration(stages, *entry.value, shape), blocking = duration(stages, *entry.value, shape, true);
    INFO(entry.name);
    CHECK(beside > free);
    CHECK(blocking > beside);
    // No stage sends more than twice per microbatch and chunk.
    CHECK(blocking < free + 0.05 * 2 * (2 * 16 * shape.virtual_stages + 2 * shape.stages));
  }
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
