#pragma once
// What every verb that answers for a scenario does first: file and overrides, cluster, model, axes, Program, prices.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/cli/data_directory.hpp"
#include "core/cluster/cluster.hpp"
#include "core/config/scenario.hpp"
#include "core/hardware/catalogue.hpp"
#include "core/price/calibration/device_profile.hpp"
#include "core/price/cost_model.hpp"
#include "core/price/memory_rule.hpp"
#include "core/program/program.hpp"
#include "core/report/results/step_report.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse::cli {

/// A scenario with everything it names looked up and every automatic value resolved. Movable, not copyable.
struct Session {
  DataDirectory data;
  Catalogue catalogue;
  Scenario scenario;
  Cluster cluster;
  /// By rank, where the scenario's strategy.devices says; else empty: rank i on device i.
  std::vector<DeviceId> devices;
  Workload workload;
  /// Where the scenario's cluster or calibration is one: measured on this machine by `rehearse calibrate`. Programs are
  /// then as that device stores them.
  std::shared_ptr<const DeviceProfile> profile{};
  std::map<int, double> slowdown{};  ///< Ranks whose kernels take longer (--what-if straggler).

  /// Throws Error (usage) where axes, sizes or the schedule do not work out.
  [[nodiscard]] Program lowered() const;
  /// The same with other settings of the strategy.
  [[nodiscard]] Program lowered(const StrategySettings& settings) const;
  /// Refers to `cluster`: the session must outlive it.
  [[nodiscard]] CostModel cost_model() const;
  [[nodiscard]] ReportHead head(const Program& program) const;
};

/// Reads the scenario at `path` with `overrides` ("strategy.tp=8"). With `ranks`, automatic axes are worked out for
/// that many devices instead of the cluster's.
[[nodiscard]] Session open_session(const std::string& path, const std::vector<std::string>& overrides,
                                   std::optional<int> ranks = {});
/// The same from a scenario that was read. Without `resolved` its strategy is left as it is: axes may be automatic, or
/// not fit the cluster.
[[nodiscard]] Session open_session(Scenario scenario, std::optional<int> ranks = {}, bool resolved = true);

/// Peak memory, and where it does not fit the smallest change that makes it fit.
[[nodiscard]] MemoryReport check_memory(const Session& session, const Program& program);

/// The version of this program.
[[nodiscard]] const char* program_version();

}  // namespace rehearse::cli
