// Hybrid sharding (Zhao et al. 2023, sec. 3.2.2): FSDP within groups of dp_shard ranks, a copy per group. Scattered
// gradients, sums over the group, are then all-reduced over the dp_replicate groups: 1/dp_shard of the bytes, on the
// slow wires only.

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

namespace {

class Hsdp final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override {
    return request.settings.fsdp.enabled && request.settings.dp_replicate > 1;
  }
  void check(const PlanRequest& request) const override {
    const StrategySettings& s = request.settings;
    if (s.dp_shard * s.cp == 1)
      throw Error(
          ErrorKind::usage,
          fmt::format("fsdp.enabled shards over dp_shard({}): dp_replicate({}) whole copies are plain data parallelism",
                      s.dp_shard, s.dp_replicate),
          "strategy.dp_shard", "set strategy.dp_shard to the ranks of a node, or strategy.fsdp.enabled to false");
  }
};

[[maybe_unused]] const bool registered_hsdp = strategies().add(
    {"hsdp",
     "FSDP within groups of dp_shard ranks, dp_replicate copies; scattered gradients all-reduced between the copies",
     {{"fsdp.enabled", "true", "false"},
      {"dp_shard", "ranks over which one copy is sharded", "dp"},
      {"dp_replicate", "copies", "1"}},
     std::make_shared<Hsdp>()});

[[maybe_unused]] const bool named_hsdp = name_strategy(
    "hsdp", {{"HYBRID_SHARD", "PyTorch", "strategy.fsdp.enabled=true, strategy.dp_shard=GPUs of a node"}});

}  // namespace

}  // namespace rehearse
