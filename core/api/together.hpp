#pragma once
// Several jobs that train at the same time on one cluster: how long each one's step takes alone and beside the others,
// and which links they fight for.
//
//   const rehearse::TogetherReport report = rehearse::simulate_together(
//       {{"a.json", rehearse::load_scenario("a.json")}, {"b.json", rehearse::load_scenario("b.json")}},
//       {.deal = rehearse::NodeDeal::interleaved});

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/config/scenario.hpp"
#include "core/report/results/together_report.hpp"

namespace rehearse {

/// A job, and when and where it trains.
struct TogetherAsked {
  std::string name;  ///< For messages and reports.
  Scenario scenario;
  Seconds begin{};  ///< When its first step begins, from 0 on.
  /// Nodes of the shared cluster, as many as the scenario's cluster has. Empty: as TogetherOptions::deal says.
  std::vector<NodeId> nodes{};
};

/// How nodes are given to jobs that do not say which.
enum class NodeDeal {
  one_after_another,  ///< The first job gets the first nodes, the next job the next.
  interleaved         ///< In turn: each job that lacks nodes gets one.
};

struct TogetherOptions {
  /// Folder that holds topologies/ and scenarios/. Default: empty, which searches as find_data() says.
  std::filesystem::path data{};
  /// As SimulateOptions::backend. Default: empty. "analytic" lets nobody wait for a link.
  std::string backend{};
  /// The cluster that they share: a registered cluster, a machine or a file. Default: empty, which takes what all
  /// scenarios name: one named cluster, or as many nodes of one machine on one network as all ask for.
  std::string cluster{};
  /// In place of `cluster`, as a scenario states it. Default: empty.
  std::optional<ClusterRef> reference{};
  NodeDeal deal = NodeDeal::one_after_another;
  int steps = 3;  ///< Of each job, from 1 on.
  /// Whether plans that do not fit are played all the same. Default: no.
  bool despite_memory = false;
  /// Called every few thousand operations; what it throws ends the run and is thrown on. Default: nothing is called.
  std::function<void(const RunProgress&)> progress{};
};

/// Each job on the same nodes by itself, and then all at once, `steps` steps each. Jobs that share no link take exactly
/// what they take alone. Throws Error: usage where scenarios name different machines and no cluster is named, nodes are
/// too few, are not there or are given twice, and as simulate(); infeasible where a plan does not fit.
[[nodiscard]] TogetherReport simulate_together(const std::vector<TogetherAsked>& jobs,
                                               const TogetherOptions& options = {});

}  // namespace rehearse
