#pragma once
// Jobs that between them use every schedule and every setting of communication, on two to eight nodes.

#include "core/config/settings/strategy.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/testbed.hpp"
#include "tests/unit/program/lowered.hpp"

namespace rehearse::testing {

struct Scene {
  std::string name;
  test::Job job;
  int nodes;
};

/// A GPT of 12 h^2 parameters per layer with messages of a few MB.
inline test::Job small_gpt(int layers) {
  return test::Job(
      test::changed("tiny_gpt2",
                    {{"n_embd", 1024}, {"n_inner", 4096}, {"n_head", 16}, {"n_layer", layers}, {"n_positions", 1024}}),
      1024);
}

inline Scene scene(const std::string& name, int dp, int tp, int pp,
                   const std::function<void(StrategySettings&)>& set = {}) {
  test::Job job = small_gpt(8);
  job.microbatches = 8;
  StrategySettings& s = job.strategy;
  s.dp = s.dp_replicate = dp;
  s.tp = tp;
  s.pp = pp;
  if (set) set(s);
  return {name, std::move(job), dp * tp * pp / 8};
}

/// Sixteen experts of 512 inner neurons, two for each token; rows of 2 MB a rank.
inline Scene expert_scene(const std::string& name, int dp, int tp, int pp, int ep,
                          const std::function<void(test::Job&)>& set = {}) {
  test::Job job(test::changed("tiny_mixtral", {{"hidden_size", 512},
                                               {"intermediate_size", 512},
                                               {"num_attention_heads", 16},
                                               {"num_key_value_heads", 16},
                                               {"num_local_experts", 16},
                                               {"max_position_embeddings", 1024}}),
                1024);
  StrategySettings& s = job.strategy;
  s.dp = s.dp_replicate = dp;
  s.tp = tp;
  s.pp = pp;
  s.ep = ep;
  s.zero_stage = 1;
  s.sequence_parallel = tp > 1;
  if (set) set(job);
  return {name, std::move(job), dp * tp * pp / 8};
}

inline std::vector<Scene> scenes() {
  return {
      scene("one node, tp", 1, 8, 1),
      scene("one node, dp", 8, 1, 1),
      scene("one node, all", 2, 2, 2),
      scene("gpipe", 1, 8, 4, [](auto& s) { s.schedule = "gpipe"; }),
      scene("1f1b", 1, 8, 4),
      scene("1f1b, blocking sends", 1, 8, 4, [](auto& s) { s.overlap.pp = false; }),
      scene("interleaved", 1, 8, 4,
            [](auto& s) {
              s.schedule = "interleaved_1f1b";
              s.virtual_stages = 2;
            }),
      scene("interleaved, split messages", 1, 8, 2,
            [](auto& s) {
              s.schedule = "interleaved_1f1b";
              s.virtual_stages = 2;
              s.scatter_gather = true;
            }),
      scene("data parallel", 4, 8, 1),
      scene("data parallel without overlap", 2, 8, 1, [](auto& s) { s.overlap.grad_reduce = false; }),
      scene("data parallel over all GPUs", 16, 1, 1),
      scene("zero 1", 4, 8, 1, [](auto& s) { s.zero_stage = 1; }),
      scene("zero 1, gathers overlap", 2, 4, 2,
            [](auto& s) {
              s.zero_stage = 1;
              s.overlap.param_gather = true;
            }),
      scene("sequence parallel", 2, 4, 2,
            [](auto& s) {
              s.sequence_parallel = true;
              s.recompute = Recompute::selective;
            }),
      expert_scene("experts over all GPUs", 16, 1, 1, 16),
      expert_scene("experts of a node, pipeline", 8, 1, 2, 8, [](auto& j) { j.strategy.recompute = Recompute::full; }),
      expert_scene("one copy per node, uneven", 16, 1, 1, 16,
                   [](auto& j) {
                     j.strategy.dispatch = Dispatch::hierarchical;
                     j.strategy.dispatch_node = 8;
                     j.workload.training.experts.imbalance = Imbalance::zipf;
                   }),
      expert_scene("split experts", 2, 8, 1, 2, [](auto& j) { j.strategy.etp = 8; }),
      scene("everything", 2, 8, 2,
            [](auto& s) {
              s.zero_stage = 1;
              s.sequence_parallel = true;
              s.recompute = Recompute::full;
              s.schedule = "interleaved_1f1b";
              s.virtual_stages = 2;
            }),
  };
}

}  // namespace rehearse::testing
