#pragma once
// Shipped machines on shipped or made-up networks, with their prices: what tests play Programs on.

#include <memory>
#include <string>

#include "core/hardware/catalogue.hpp"
#include "core/play/clocks/analytic_clock.hpp"
#include "core/play/player/player.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::testing {

inline NetworkSpec shipped_network(const std::string& id) { return *Catalogue(source_path("topologies")).network(id); }

inline Cluster machines_on(int nodes, NetworkSpec network, const std::string& machine = "dgx_a100_80gb") {
  const Catalogue catalogue(source_path("topologies"));
  const auto spec = catalogue.machine(machine);
  return {machine, {{spec, catalogue.gpu(spec->gpu), nodes}}, std::move(network)};
}

/// NCCL forced to one algorithm.
inline CostModel::Options only(std::string algorithm) {
  CostModel::Options options;
  options.collectives.algorithm = std::move(algorithm);
  return options;
}

struct Testbed {
  Cluster cluster;
  CostModel::Profiles profiles;
  CostModel cost;

  explicit Testbed(Cluster made, CostModel::Options options = {})
      : cluster(std::move(made)), profiles(shipped_profiles(cluster)), cost(cluster, profiles, options) {}
  explicit Testbed(int nodes, const std::string& network = "selene", CostModel::Options options = {})
      : Testbed(machines_on(nodes, shipped_network(network)), std::move(options)) {}
  Testbed(const Testbed&) = delete;
  Testbed& operator=(const Testbed&) = delete;

  static CostModel::Profiles shipped_profiles(const Cluster& cluster) {
    const GpuSpec& gpu = cluster.gpu(0);
    return {{gpu.id, load_calibration(source_path("topologies/calibration"), gpu)}};
  }

  RunResult play_on(PlayClock& clock, const Program& program, const RunOptions& options = {}) const {
    Trace nothing({});
    return play(program, cluster, cost, options, nothing, clock, "test");
  }
  [[nodiscard]] RunResult analytic(const Program& program, const RunOptions& options = {}) const {
    AnalyticClock clock(cluster);
    return play_on(clock, program, options);
  }
};

}  // namespace rehearse::testing
