#pragma once
// What every answer for a scenario starts with: file and overrides, cluster, model, axes, Program, prices. For callers
// who need the Program or the cluster beside the answer, or several answers for one scenario.
//
//   const rehearse::Session session = rehearse::open_session("scenarios/llama3_8b_h100_8.json", {"strategy.tp=2"});
//   const rehearse::Program program = session.lowered();
//   const rehearse::StepReport step = rehearse::simulate(session, program);

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/api/data_directory.hpp"
#include "core/api/session/framework_plans.hpp"
#include "core/cluster/cluster.hpp"
#include "core/config/scenario.hpp"
#include "core/framework/framework.hpp"
#include "core/hardware/catalogue.hpp"
#include "core/price/calibration/device_profile.hpp"
#include "core/price/cost_model.hpp"
#include "core/price/memory_rule.hpp"
#include "core/program/program.hpp"
#include "core/report/results/step_report.hpp"
#include "core/strategy/strategy.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

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
  std::optional<Framework> framework{};  ///< That the scenario names.
  std::vector<TakenFact> taken{};        ///< What it took from the framework's profile.
  std::map<int, double> slowdown{};      ///< Ranks whose kernels take longer (what_if.hpp).
  /// What apply_what_if() changed.
  struct Changes {
    std::string words;   ///< Empty for nothing.
    bool links = false;  ///< Rates of links among it, which show only where collectives are played as flows.
  };
  Changes changes{};
  std::shared_ptr<nccl::SystemSearches> searches{};  ///< Of its options.
  std::vector<ErrorGroup> own{};                     ///< Errors of steps that the user measured (observed.hpp).
  /// What the framework does where the strategy is another; null without a framework.
  std::shared_ptr<const FrameworkPlans> plans{};

  /// Throws Error (usage) where axes, sizes or the schedule do not work out.
  [[nodiscard]] Program lowered() const;
  /// The same with other settings of the strategy, under which a framework may do other things.
  [[nodiscard]] Program lowered(const StrategySettings& settings) const;
  /// `settings` with what the framework does under them.
  [[nodiscard]] StrategySettings as_run(const StrategySettings& settings) const;
  /// The workload under them; nothing where it is `workload`.
  [[nodiscard]] std::optional<Workload> other_workload(const StrategySettings& settings) const;
  /// Refers to `cluster`: the session must outlive it.
  [[nodiscard]] CostModel cost_model() const;
  /// Calibrated kernels of each kind of GPU in a cluster, as the scenario's calibration and kernels say.
  [[nodiscard]] CostModel::Profiles profiles(const Cluster& of) const;
  [[nodiscard]] ReportHead head(const Program& program) const;
};

struct SessionOptions {
  /// Folder that holds topologies/ and scenarios/. Default: empty, which searches as find_data() says.
  std::filesystem::path data{};
  /// Devices that automatic axes are worked out for. Default: those of the cluster, or as strategy.devices says.
  std::optional<int> ranks{};
  /// Device of each rank, on the scenario's cluster, in place of strategy.devices and cluster.gpus_per_node. Default:
  /// as these say.
  std::vector<DeviceId> devices{};
  /// Whether automatic axes and balance are worked out. Default: yes; without, the strategy is left as it is, and may
  /// not fit the cluster.
  bool resolved = true;
  /// Searches for NCCL's channels, kept from one session to the next where many are opened. Default: each searches.
  std::shared_ptr<nccl::SystemSearches> searches{};
};

/// Looks up what `scenario` names. Throws Error (usage) with the place in its file for what there is not.
[[nodiscard]] Session open_session(Scenario scenario, const SessionOptions& options = {});
/// Reads the scenario at `path` with `overrides` ("strategy.tp=8") first.
[[nodiscard]] Session open_session(const std::string& path, const std::vector<std::string>& overrides,
                                   const SessionOptions& options = {});

}  // namespace rehearse
