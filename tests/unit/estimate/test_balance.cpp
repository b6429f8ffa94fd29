// Shares by speed: never worse than equal ones, equal to the best of all there are, and visibly better on a mixed
// cluster.

#include <algorithm>
#include <numeric>
#include <random>

#include "core/config/settings/strategy.hpp"
#include "core/estimate/balance.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/estimate/estimate_jobs.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

using Shares = std::vector<std::int64_t>;

double slowest_stage(const std::vector<std::vector<Seconds>>& time, const std::vector<Seconds>& fixed,
                     const Shares& layers) {
  double slowest = 0;
  std::size_t l = 0;
  for (std::size_t s = 0; s < time.size(); ++s) {
    double mine = fixed[s].value();
    for (std::int64_t i = 0; i < layers[s]; ++i) mine += time[s][l++].value();
    slowest = std::max(slowest, mine);
  }
  return slowest;
}

double slowest_replica(const std::vector<Seconds>& time, const Shares& share) {
  double slowest = 0;
  for (std::size_t r = 0; r < time.size(); ++r)
    slowest = std::max(slowest, static_cast<double>(share[r]) * time[r].value());
  return slowest;
}

/// Every way to give `parts` at least one each of `total`.
void each_way(std::size_t parts, std::int64_t total, Shares& so_far, const std::function<void(const Shares&)>& visit) {
  if (parts == 1) {
    so_far.push_back(total);
    visit(so_far);
    so_far.pop_back();
    return;
  }
  for (std::int64_t mine = 1; mine <= total - static_cast<std::int64_t>(parts) + 1; ++mine) {
    so_far.push_back(mine);
    each_way(parts - 1, total - mine, so_far, visit);
    so_far.pop_back();
  }
}

/// GPT-2 on a node of A100 beside one of V100.
struct Mixed {
  std::unique_ptr<Site> site;
  Workload workload;
  StrategySettings strategy;

  explicit Mixed(const std::vector<std::string>& placement) {
    ClusterSpec spec;
    spec.parts = {{"dgx_a100_80gb", 1}, {"dgx1v", 1}};
    spec.network = "single_switch";
    site = std::make_unique<Site>(spec);
    workload.network = ModelLibrary(kSource + "/scenarios/models").load("gpt2");
    workload.training.global_batch = 64;
    workload.training.sequence_length = 1024;
    workload.training.precision = Precision::fp16_mixed;
    strategy.placement = placement;
    strategy.uneven_layers = true;
  }
  [[nodiscard]] double step(const StrategySettings& s) const {
    return estimate(lower(workload, s, 16), site->cost, s).step_time.value();
  }
};

}  // namespace

TEST_CASE("contiguous layers are shared out as no other cut does better") {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 60; ++trial) {
    const std::size_t stages = 1 + random() % 4, layers = stages + random() % 6;
    std::vector<std::vector<Seconds>> time(stages);
    std::vector<Seconds> fixed;
    for (auto& stage : time) {
      const double speed = 1 + static_cast<double>(random() % 4);
      for (std::size_t l = 0; l < layers; ++l) stage.emplace_back((1 + static_cast<double>(random() % 3)) / speed);
      fixed.emplace_back(static_cast<double>(random() % 2));
    }
    const Shares chosen = balanced_layers(time, fixed);
    CHECK(std::accumulate(chosen.begin(), chosen.end(), std::int64_t{0}) == static_cast<std::int64_t>(layers));
    double best = 1e30;
    Shares tried;
    each_way(stages, static_cast<std::int64_t>(layers), tried,
             [&](const Shares& s) { best = std::min(best, slowest_stage(time, fixed, s)); });
    CHECK(slowest_stage(time, fixed, chosen) == Approx(best));
  }
  CHECK_THROWS_AS(
      balanced_layers(std::vector<std::vector<Seconds>>(3, {Seconds{1}, Seconds{1}}), std::vector<Seconds>(3)),
      std::invalid_argument);
}

TEST_CASE("microbatches are shared out as no other way does better") {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<Seconds> time(1 + random() % 4);
    for (Seconds& t : time) t = Seconds{1 + static_cast<double>(random() % 5)};
    const auto total = static_cast<std::int64_t>(time.size() + random() % 8);
    const Shares chosen = balanced_microbatches(time, total);
    CHECK(std::accumulate(chosen.begin(), chosen.end(), std::int64_t{0}) == total);
    double best = 1e30;
    Shares tried;
    each_way(time.size(), total, tried, [&](const Shares& s) { best = std::min(best, slowest_replica(time, s)); });
    CHECK(slowest_replica(time, chosen) == Approx(best));
  }
  CHECK_THROWS_AS(balanced_microbatches(std::vector<Seconds>(3, Seconds{1}), 2), std::invalid_argument);
}

TEST_CASE("stages on slower GPUs get fewer layers, and the step is shorter for it") {
  Mixed mixed({"tp", "dp", "pp"});  // Stage 0 on A100, stage 1 on V100.
  StrategySettings s = mixed.strategy;
  s.pp = 2;
  s.dp = s.dp_replicate = 8;
  const double equal = mixed.step(s);
  s.balance = Balance::automatic;
  const StrategySettings shared = balanced(mixed.workload, s, mixed.site->cost);
  REQUIRE(shared.layers_per_stage.size() == 2);
  CHECK(shared.layers_per_stage[0] > shared.layers_per_stage[1]);
  CHECK(shared.batch_per_replica.empty());  // All replicas lie on the same two kinds.
  CHECK(mixed.step(shared) < 0.9 * equal);
}

TEST_CASE("replicas on slower GPUs get fewer sequences, and the step is shorter for it") {
  Mixed mixed({"tp", "pp", "dp"});
  StrategySettings s = mixed.strategy;
  s.dp = s.dp_replicate = 16;
  const double equal = mixed.step(s);
  s.balance = Balance::automatic;
  const StrategySettings shared = balanced(mixed.workload, s, mixed.site->cost);
  REQUIRE(shared.batch_per_replica.size() == 16);
  CHECK(shared.batch_per_replica.front() > shared.batch_per_replica.back());
  CHECK(std::accumulate(shared.batch_per_replica.begin(), shared.batch_per_replica.end(), std::int64_t{0}) == 64);
  CHECK(shared.layers_per_stage.empty());
  CHECK(mixed.step(shared) < 0.9 * equal);
}

TEST_CASE("equal devices keep equal shares, and what is given stays") {
  const auto dgx = make_site("dgx_a100_80gb", 2, "selene");
  Mixed mixed({"tp", "dp", "pp"});
  StrategySettings s = mixed.strategy;
  s.pp = 2;
  s.dp = s.dp_replicate = 8;
  s.balance = Balance::automatic;
  const StrategySettings same = balanced(mixed.workload, s, dgx->cost);
  CHECK(same.layers_per_stage.empty());
  CHECK(same.batch_per_replica.empty());
  s.layers_per_stage = {9, 3};
  CHECK(balanced(mixed.workload, s, mixed.site->cost).layers_per_stage == Shares{9, 3});
  s.layers_per_stage.clear();
  s.balance = Balance::layers;
  s.schedule = "interleaved_1f1b";
  s.virtual_stages = 2;
  CHECK_THROWS_AS(balanced(mixed.workload, s, mixed.site->cost), Error);
}
