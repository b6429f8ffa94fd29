#pragma once
// A small plan lowered for real, for reports to describe.

#include "core/cluster/make_cluster.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/model/library.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::test {

inline Catalogue catalogue() { return Catalogue(rehearse::testing::source_path("topologies")); }

inline Workload tiny_workload() {
  Workload w{ModelLibrary(rehearse::testing::source_path("scenarios/models")).load("tiny_gpt2"), {}, {}};
  w.training.global_batch = 8;
  w.training.sequence_length = 128;
  w.training.tokens = 8 * 128 * 86400;
  return w;
}

/// dp 2 x tp 2 x pp 2 on the eight GPUs of one machine.
inline StrategySettings eight_gpus() {
  StrategySettings s;
  s.dp = s.dp_replicate = 2;
  s.tp = 2;
  s.pp = 2;
  return s;
}

inline Cluster one_machine(const std::string& machine = "dgx_a100_80gb") {
  return make_cluster(
      catalogue(),
      ClusterSpec{.id = {}, .name = {}, .parts = {{machine, 1}}, .network = "single_switch", .sources = {}});
}

}  // namespace rehearse::test
