// The estimators against the analytic back end on scenarios drawn uniformly from the registered strategies: first the
// strategy, then settings that use it.

#include <cmath>
#include <set>

#include "core/config/settings/strategy.hpp"
#include "core/estimate/quick/quick_estimate.hpp"
#include "core/price/stage_memory.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/strategy.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/estimate/estimate_draws.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

bool uses(const Drawn& d, const Strategy& strategy) {
  return strategy.active(
      {d.workload, d.strategy,
       static_cast<int>(d.workload.training.global_batch / (d.strategy.microbatch * d.strategy.dp))});
}

bool lowers(const Drawn& d) {
  try {
    (void)lower(d.workload, d.strategy, d.site->cluster);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Two networks in replicas.
Drawn draw_adversarial(std::mt19937_64& random) {
  Drawn d;
  d.workload.network = network("dcgan");
  d.workload.training.precision = any_of(random, std::vector{Precision::fp32, Precision::fp16_mixed});
  d.strategy.dp = d.strategy.dp_replicate = 8;
  d.strategy.microbatch = any_of(random, std::vector{8, 64});
  d.workload.training.global_batch = d.strategy.microbatch * 8 * any_of(random, std::vector{1, 2});
  d.site = &site({"dgx1v", 1, "single_switch"});
  d.name = fmt::format("dcgan microbatch {}", d.strategy.microbatch);
  return d;
}

/// One node of replicas around one place that keeps the parameters.
Drawn draw_central(std::mt19937_64& random) {
  Drawn d;
  StrategySettings& s = d.strategy;
  d.workload.network = network(any_of(random, std::vector<std::string>{"tiny_gpt2", "gpt2", "resnet50"}));
  s.data_parallel = any_of(random, std::vector{DataParallelism::funnel, DataParallelism::parameter_server});
  s.dp = s.dp_replicate = 8;
  s.servers = any_of(random, std::vector{1, 2, 8});
  s.microbatch = any_of(random, std::vector{1, 4});
  d.workload.training.global_batch = s.microbatch * 8;
  if (d.workload.network.sequences) d.workload.training.sequence_length = 512;
  d.site = &site({"dgx1v", 1, "single_switch"});
  d.name = fmt::format("{} {} servers {} microbatch {}", d.workload.network.name, name_of(s.data_parallel), s.servers,
                       s.microbatch);
  return d;
}

/// Any schedule there is, with state or activations on the host.
Drawn draw_ordered(std::mt19937_64& random) {
  Drawn d = draw(random, kDense);
  d.strategy.schedule = any_of(random, schedules().names());
  d.strategy.offload =
      any_of(random, std::vector{Offload::none, Offload::optimizer, Offload::activations, Offload::all});
  d.name += fmt::format(" {} offload {}", d.strategy.schedule, name_of(d.strategy.offload));
  return d;
}

/// Slices of parameters on the host, under either way of dividing them.
Drawn draw_offloaded(std::mt19937_64& random) {
  Drawn d = draw_sharded(random);
  d.strategy.offload = any_of(random, std::vector{Offload::optimizer, Offload::all});
  d.strategy.declared.set("strategy.offload_parameters", true);
  d.name += " parameters offloaded";
  return d;
}

Drawn draw_using(std::mt19937_64& random, const Strategy& strategy) {
  static const std::vector<Drawn (*)(std::mt19937_64&)> kFamilies{dense,        draw_sharded, draw_context,
                                                                  experts,      draw_images,  draw_adversarial,
                                                                  draw_central, draw_ordered, draw_offloaded};
  for (;;) {
    Drawn d = any_of(random, kFamilies)(random);
    if (const std::vector<StrategyExample> own = strategy.examples(); !own.empty()) {
      const StrategyExample example = any_of(random, own);
      example.turn_on(d.strategy);
      d.name += " " + example.name;
    }
    const std::int64_t played = static_cast<std::int64_t>(d.site->cluster.device_count()) *
                                d.workload.training.global_batch / (d.strategy.dp * d.strategy.microbatch);
    if (uses(d, strategy) && played <= 512 && lowers(d)) return d;
  }
}

}  // namespace

TEST_CASE("scenarios of every registered strategy are estimated as they are played") {
  std::mt19937_64 random(81);
  std::vector<Compared> rows;
  std::set<std::string> drawn;
  const auto& entries = strategies().entries();
  for (int i = 0; i < draws(static_cast<int>(entries.size())); ++i) {
    // In rounds of all: so few draws at random would leave some out.
    const auto& entry = entries[static_cast<std::size_t>(i) % entries.size()];
    drawn.insert(entry.name);
    const Drawn d = draw_using(random, *entry.value);
    for (const int steps : {1, 3}) {
      Compared row = compare(fmt::format("{}: {}, {} step(s)", entry.name, d.name, steps),
                             lower(d.workload, d.strategy, d.site->cluster), *d.site, d.strategy, steps);
      QuickEstimator quick(d.workload, d.site->cluster, d.site->cost, {}, steps);
      const QuickEstimate e = quick(d.strategy, d.workload.training);
      row.estimated = e.step_time.value();
      row.name += e.closed_form ? ", told from tables" : "";
      rows.push_back(row);
      if (!e.closed_form) continue;
      const Bytes needed = memory_report(lower(d.workload, d.strategy, d.site->cluster), d.site->cluster, MemoryRule())
                               .tightest()
                               .needed;
      INFO(row.name);
      CHECK(e.needed.value() == Approx(needed.value()).epsilon(1e-3));
    }
  }
  CHECK(drawn.size() == entries.size());
  CHECK(print("every registered strategy", rows).worst < 0.01);
}
