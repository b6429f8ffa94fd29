#pragma once
// A shared cluster as its file says it, with what only predictions know worked out: how long jobs that name a scenario
// take on whatever GPUs they may get, and how often machines break.
//
//   const rehearse::fleet::Fleet f = rehearse::open_fleet("fleet.json", {"policy.rule=easy"});
//   const rehearse::fleet::FleetResult result = rehearse::fleet::run_fleet(f);

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/api/together.hpp"
#include "core/fleet/fleet.hpp"
#include "core/fleet/result.hpp"

namespace rehearse {

struct FleetOptions {
  /// Folder that holds topologies/ and scenarios/. Default: empty, which searches as find_data() says.
  std::filesystem::path data{};
  /// Told how many of the jobs with a scenario are priced, 0..1; what it throws ends the work and is thrown on.
  /// Default: nothing is called.
  std::function<void(double share)> progress{};
};

/// Reads the fleet at `path`; price_work() and look_up_failures() are done. Throws as these and as load_fleet().
[[nodiscard]] fleet::Fleet open_fleet(const std::string& path, const std::vector<std::string>& overrides,
                                      const FleetOptions& options = {});

/// For each job with a scenario: its duration on the GPUs that it asks for, and `speeds` for every number of them and
/// every model that it may get. A step is estimated in closed form, with the known bias of such predictions, on as few
/// nodes as hold the GPUs. Where a number of GPUs does not divide the axes or does not fit into memory, the job trains
/// on the next lower one that does, and the rest idle. Models on which it runs nowhere are taken from its request.
/// Throws Error: usage for a scenario that is not there or wrong, for nodes whose machine is not known; infeasible
/// where a job can run on no GPUs that it may get.
void price_work(fleet::Fleet& fleet, const FleetOptions& options = {});

/// The jobs with scenarios that run at `at`, each on its nodes, played together on the links that they share
/// (core/api/together.hpp). Throws Error (usage) where none runs, a node has two of them, one stands on unequal parts
/// of its nodes, or nodes' machines or network are not known; and as simulate_together().
[[nodiscard]] TogetherReport play_moment(const fleet::Fleet& fleet, const fleet::FleetResult& result, Seconds at,
                                         TogetherOptions options = {});

/// Node::mtbf from the profile that the fleet names: the parts of each machine break at their rates, independent of
/// each other. Throws Error (usage) for an unknown profile, or a node whose machine is not known.
void look_up_failures(fleet::Fleet& fleet, const FleetOptions& options = {});

}  // namespace rehearse
