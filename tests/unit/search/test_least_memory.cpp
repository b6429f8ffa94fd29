#include "core/search/bounds/least_memory.hpp"

#include "core/config/settings/strategy.hpp"
#include "core/strategy/state_shards.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/search/jobs.hpp"

using namespace rehearse;
using namespace rehearse::test;

TEST_CASE("1F1B accumulates whole gradients beside all activations in its steady state alone") {
  const Schedule& schedule = *schedules().at("1f1b").value;
  const WholeBeside steady = whole_beside(schedule, {4, 1, 8}, 0), filled = whole_beside(schedule, {4, 1, 4}, 0),
                    one = whole_beside(schedule, {4, 1, 1}, 0);
  CHECK(steady.weights == 1);
  CHECK(steady.gradients == 1);
  // The first backward leaves three of four.
  CHECK(filled.weights == 1);
  CHECK(filled.gradients == 0.75);
  // Gradients of a single microbatch are divided as they come.
  CHECK(one.gradients == 0);
}

TEST_CASE("with more microbatches no schedule holds less") {
  int held = 0;
  for (const auto& entry : schedules().entries())
    for (const int p : {2, 4, 6})
      for (const int v : {1, 2, 3})
        for (const int m : {2 * p, 3 * p, 4 * p, 6 * p}) {
          const Schedule& schedule = *entry.value;
          const PipelineShape shape{p, v, m};
          try {
            schedule.check(shape);
          } catch (const Error&) {
            continue;
          }
          const std::vector<KeptInChunk> chunks(static_cast<std::size_t>(p * v), {Bytes{3}, Bytes{5}});
          for (int stage = 0; stage < p; ++stage) {
            const WholeBeside few = least_whole_beside(schedule, shape, stage),
                              all = whole_beside(schedule, shape, stage);
            INFO(entry.name << " p " << p << " v " << v << " m " << m << " stage " << stage);
            CHECK(few.weights <= all.weights);
            CHECK(few.gradients <= all.gradients);
          }
          CHECK(most_kept(schedule, {p, v, 2 * p}, chunks) <= most_kept(schedule, shape, chunks));
          CHECK(most_kept(schedule, shape, chunks) >= Bytes{3.0 * schedule.chunks_in_flight(0, shape)} *
                                                          (schedule.splits_backward()                        ? 0.5
                                                           : m > 2 * p && entry.name == std::string("gpipe") ? 0.0
                                                                                                             : 1.0));
          ++held;
        }
  CHECK(held > 50);
}

TEST_CASE("what FSDP keeps whole between passes of a pipeline is in its least memory") {
  const SearchJob job("gpt2_xl", "dgx_a100_80gb", 1, 32, 1024);
  const SearchProblem problem = job.problem();
  StrategySettings s = job.job.strategy;
  s.pp = 2;
  s.dp = s.dp_shard = 4;
  s.dp_replicate = 1;
  s.fsdp.enabled = true;
  CHECK(state_shards(s, false).weights_stay);
  CHECK(state_shards(s, false).gradients_stay);
  const StageState stage{Bytes{2e9}, Bytes{4e9}, Bytes{12e9}, Bytes{1e9}};
  const Bytes least = least_memory(s, stage, {1, 1});
  CHECK(least > Bytes{2e9 + 4e9 + 1e9 + 16e9 / 4});
  s.pp = 1;
  s.dp = s.dp_shard = 8;
  CHECK_FALSE(state_shards(s, false).weights_stay);
  CHECK(least_memory(s, stage, {1, 1}) < least);
}

TEST_CASE("of a chunk all layers but the last are moved") {
  StrategySettings s;
  CHECK(moved_layers(s, 4) == 0);
  CHECK(kept_share(s, 8) == 1);
  s.offload = Offload::activations;
  CHECK(moved_layers(s, 4) == 3);
  CHECK(moved_layers(s, 1) == 0);
  s.pp = 2;
  CHECK(kept_share(s, 8) == 0.25);
  s.virtual_stages = 4;
  CHECK(kept_share(s, 8) == 1);
  s.offload_layers = 1;
  CHECK(moved_layers(s, 4) == 1);
}
