#pragma once
// Plans drawn from whole search spaces, and how the closed form and the player differ on them.

#include <algorithm>
#include <memory>
#include <random>

#include "core/estimate/evaluation.hpp"
#include "core/search/space.hpp"
#include "tests/unit/estimate/estimate_draws.hpp"

namespace rehearse::test {

/// The spaces on which the closed form is held to the player: dense, sharded, and with experts.
inline const std::vector<std::string> kSpaces{"gpt3_175b_a100_1024",      "llama3_405b_h100_16384",
                                              "llama3_8b_fsdp_h100_64",   "mixtral_8x7b_h100_64",
                                              "qwen3_235b_a22b_h100_256", "deepseek_v3_h800_2048"};

/// What no plan of any space does; a Space of such a mesh would say at length why it is empty.
inline bool divides_nothing(const Workload& workload, const StrategySettings& s, int devices) {
  if (devices % (s.tp * s.pp * s.cp) != 0) return true;
  const int dp = devices / (s.tp * s.pp * s.cp);
  if (s.pp > workload.network.layers() || workload.training.global_batch % dp != 0) return true;
  const Routing* routing = workload.network.routing();
  return routing != nullptr &&
         (routing->experts % s.ep != 0 || (s.etp != 1 && s.etp != s.tp) || dp * s.cp * s.tp % (s.ep * s.etp) != 0);
}

/// A plan of all that are legal: first a mesh, then one of its plans, each uniformly.
inline StrategySettings draw_settings(const ScenarioJob& job, std::mt19937_64& random) {
  const int devices = job.site->cluster.device_count();
  const bool experts = job.workload.network.routing() != nullptr;
  const auto power = [&](int most) { return 1 << (random() % static_cast<unsigned>(most + 1)); };
  for (;;) {
    StrategySettings s = job.strategy;
    s.tp = power(4);
    s.pp = power(5);
    s.cp = power(4);
    s.ep = experts ? power(6) : 1;
    s.etp = experts ? power(3) : 1;
    if (divides_nothing(job.workload, s, devices)) continue;
    try {
      Space space(job.workload, s, devices, {"tp", "pp", "cp", "ep", "etp"});
      space.enumerate();
      const std::vector<Space::Plan> plans = space.plans();
      return space.settings(plans[random() % plans.size()]);
    } catch (const Error&) {  // No plan has this mesh.
    }
  }
}

struct DrawnPlan {
  Workload workload;
  StrategySettings strategy;
  std::optional<Program> program;
};

/// Entries that the player goes through, all ranks together.
inline double played_entries(const Program& p, const StrategySettings& s) {
  double sum = 0;
  for (const int role : p.role_of_rank) sum += static_cast<double>(nth(p.roles, role).step.size());
  return sum / s.tp;
}

/// A plan of the space, and its Program. Where it would take the player more than `most` entries it gets fewer
/// microbatches; where that is not enough, another is drawn.
inline DrawnPlan draw_plan(const ScenarioJob& from, std::mt19937_64& random, double most) {
  for (;;) {
    DrawnPlan d{from.workload, draw_settings(from, random), {}};
    const StrategySettings& s = d.strategy;
    const std::int64_t whole = d.workload.training.global_batch / (s.dp * s.microbatch);
    for (std::int64_t m : {whole, std::int64_t{3} * s.pp, std::int64_t{2} * s.pp, std::int64_t{s.pp}}) {
      if (m > whole) continue;
      d.workload.training.global_batch = m * s.dp * s.microbatch;
      try {
        d.program = lower(d.workload, s, from.site->cluster);
      } catch (const Error&) {
        continue;
      }
      if (played_entries(*d.program, s) <= most) return d;
    }
  }
}

inline Compared compare_plan(const ScenarioJob& from, const DrawnPlan& d) {
  const int steps = steps_in_period(d.strategy, d.workload.input);
  return compare(fmt::format("{} m={}", plan_label(d.strategy), d.program->microbatches), *d.program, *from.site,
                 d.strategy, steps);
}

}  // namespace rehearse::test
