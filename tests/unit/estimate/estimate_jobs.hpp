#pragma once
// Jobs on shipped clusters, for comparing the closed form with the analytic back end.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster/make_cluster.hpp"
#include "core/config/scenario.hpp"
#include "core/estimate/estimate.hpp"
#include "core/model/library.hpp"
#include "core/play/backend.hpp"
#include "core/play/player/player.hpp"
#include "core/price/calibration/calibration.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::test {

inline const std::string kSource = rehearse::testing::source_path("");

inline const Catalogue& catalogue() {
  static const Catalogue shipped(kSource + "/topologies");
  return shipped;
}

/// A cluster and its prices; not to be moved once the model refers to the cluster.
struct Site {
  Cluster cluster;
  CostModel cost;

  explicit Site(const ClusterSpec& spec, const CostModel::Options& options = {})
      : cluster(make_cluster(catalogue(), spec)), cost(cluster, profiles(cluster), options) {}
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

 private:
  static CostModel::Profiles profiles(const Cluster& cluster) {
    CostModel::Profiles out;
    for (const Cluster::Part& part : cluster.parts()) {
      auto& profile =
          out.emplace(part.gpu->id, load_calibration(kSource + "/topologies/calibration", *part.gpu)).first->second;
      // As Megatron's code has it, so that every prediction must count it for messages that block and for no others.
      profile.groups.at("launch").constants["message_s"] = {3.9e-4, profile.sources.front().key, 0, 0};
    }
    return out;
  }
};

inline std::unique_ptr<Site> make_site(const std::string& machine, int nodes, const std::string& network,
                                       const CostModel::Options& options = {}) {
  ClusterSpec spec;
  spec.parts = {{machine, nodes}};
  spec.network = network;
  return std::make_unique<Site>(spec, options);
}

/// One prediction by both.
struct Compared {
  std::string name;
  double analytic = 0, estimated = 0;
  Breakdown analytic_parts, estimated_parts;
  [[nodiscard]] double difference() const { return estimated / analytic - 1; }
};

inline Compared compare(const std::string& name, const Program& program, const Site& site,
                        const StrategySettings& settings, int steps) {
  RunOptions options;
  options.steps = steps;
  Trace nothing({});
  const RunResult run = backends().at("analytic").value()->run(program, site.cluster, site.cost, options, nothing);
  const Estimate e = estimate(program, site.cost, settings, steps);
  return {name, run.step_time.value(), e.step_time.value(),
          run.ranks.at(static_cast<std::size_t>(run.slowest)).breakdown, e.breakdown};
}

/// A scenario of the folder with its cluster, model and axes looked up.
struct ScenarioJob {
  std::string name;
  std::unique_ptr<Site> site;
  Workload workload;
  StrategySettings strategy;
};

inline ScenarioJob load_job(const std::string& file) {
  Scenario s = load_scenario(file);
  ClusterSpec spec;
  if (s.cluster.parts.empty()) spec = *catalogue().cluster(s.cluster.name);
  for (const ClusterPart& part : s.cluster.parts) spec.parts.push_back({part.machine, part.nodes});
  if (!s.cluster.network.empty()) spec.network = s.cluster.network;
  if (spec.network.empty()) spec.network = "single_switch";
  ScenarioJob job;
  job.name = std::filesystem::path(file).stem().string();
  job.site = std::make_unique<Site>(spec);
  resolve_axes(s, job.site->cluster.device_count());
  const ModelRef& m = s.model;
  job.workload.network = ModelLibrary(kSource + "/scenarios/models")
                             .load(!m.inline_json.empty() ? m.inline_json
                                   : m.file.empty()       ? m.name
                                                          : m.file,
                                   {}, {s.training.image_height, s.training.image_width});
  if (s.training.sequence_length == 0) s.training.sequence_length = job.workload.network.max_sequence_length;
  job.workload.training = s.training;
  job.workload.kernels = s.kernels;
  job.workload.input = s.input;
  job.strategy = s.strategy;
  return job;
}

/// Every scenario under scenarios/, sorted by path.
inline std::vector<std::string> scenario_files() {
  std::vector<std::string> out;
  for (const char* folder : {"/scenarios", "/scenarios/published"})
    for (const auto& file : std::filesystem::directory_iterator(kSource + folder))
      if (file.path().extension() == ".json") out.push_back(file.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace rehearse::test
