#pragma once
// Plans in the words of the programs that people train with: launch files to run, and traces and platforms for other
// simulators.
//
// A target is one file in this folder: a table from keys of the scenario to the target's flags, and what it writes.
// What has no flag in the target is listed with the reason and never dropped in silence; what stands at the scenario's
// default and has no flag is neither.

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/registry.hpp"
#include "core/config/scenario.hpp"
#include "core/model/hf_config.hpp"
#include "core/price/cost_model.hpp"
#include "core/program/program.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

/// All refer to one resolved scenario and must outlive the call.
struct ExportInput {
  std::string name;  ///< Of the files and jobs: letters, digits and dashes.
  const Scenario& scenario;
  const Workload& workload;
  const Cluster& cluster;
  const Program& program;
  const CostModel& cost;
  std::optional<TransformerConfig> transformer;  ///< Where the model is a decoder stack.
  Bytes host_memory_per_gpu;                     ///< Pinned and pageable memory that the plan keeps per rank.
  std::string version;                           ///< Of this program.
  std::filesystem::path models;                  ///< Folder of the registered models (ModelLibrary).
  std::set<std::string> by_profile = {};         ///< Keys whose values the framework's profile gave.
};

struct ExportedFile {
  std::string name;  ///< Relative to the folder that the user names.
  std::string text;  ///< May be binary.
  bool executable = false;
  bool binary = false;
};

/// One key of the scenario and the flag it became. `value` and `text` are as they stand in the scenario and in the
/// file. A key that the target has without a flag of its own (its default, or what follows from other flags) has no
/// `flag`, and `text` names those that say it.
struct ExportedSetting {
  std::string key, value, flag, text;
};
struct LeftOutKey {
  std::string key, value, why;
};

struct Exported {
  std::vector<ExportedFile> files;
  std::vector<ExportedSetting> settings;
  std::vector<LeftOutKey> left_out;
  std::vector<std::string> notes;  ///< What the user still has to fill in, and how to start it.
};

/// The dimensions of a scenario's model where it is a decoder stack, nothing for networks of another kind. `models` is
/// as in ExportInput; a model that cannot be read counts as another kind.
[[nodiscard]] std::optional<TransformerConfig> decoder_stack(const Scenario& scenario,
                                                             const std::filesystem::path& models);

using Exporter = std::function<Exported(const ExportInput&)>;
/// "megatron", "torchtitan", ... Parameters of an entry are its table: key of the scenario, flag.
[[nodiscard]] Registry<Exporter>& exporters();

/// The profile (topologies/frameworks) of the software that `target` writes for, "torchtitan@0.2.2"; empty for
/// launchers and formats.
[[nodiscard]] std::string framework_of_target(const std::string& target);
/// Enters it, from the target's own file. Returns true, for static initialisers.
bool writes_for(const std::string& target, const std::string& framework);

}  // namespace rehearse
