#pragma once
// A scenario: which model, on which cluster, trained how, split how. The file format is `rehearse/scenario/v1`; its
// keys, their types, ranges, defaults and help are one table (schema/), from which parsing, unknown-key checks,
// `explain`, `list`, the JSON Schema and the resolved form are all derived.
//
//   Scenario s = load_scenario("scenarios/gpt3.json", {"strategy.tp=8", "cluster.nodes=16"});
//   ... look up s.cluster, count its devices ...
//   resolve_axes(s, devices);
//
// All errors are Error (usage) with `where` "file: /json/path".

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings/framework.hpp"
#include "core/config/settings/input.hpp"
#include "core/config/settings/kernels.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"

namespace rehearse {

inline constexpr std::string_view kScenarioSchema = "rehearse/scenario/v1";

/// Exactly one member is set.
struct ModelRef {
  std::string name;         ///< A registered model.
  std::string file;         ///< Path of a Hugging Face config.json.
  std::string inline_json;  ///< The object as written, compact, keys sorted.
  bool operator==(const ModelRef&) const = default;
};

/// Equal machines. `machine` is a registered name or a file (is_file_reference).
struct ClusterPart {
  std::string machine;
  int nodes = 1;
  bool operator==(const ClusterPart&) const = default;
};

/// Either `name` or `file`, or one part or several with the network that joins them.
struct ClusterRef {
  std::string name;                    ///< A registered cluster.
  std::string file;                    ///< Path of a cluster file.
  std::vector<ClusterPart> parts;      ///< More than one: a mixed cluster.
  std::string network;                 ///< Registered name or file; empty leaves the choice to the caller.
  std::optional<bool> gpudirect_rdma;  ///< In place of what the machines say (MachineSpec).
  std::optional<bool> pxn;             ///< Likewise.
  int gpus_per_node = 0;               ///< The first so many GPUs of every node train; 0: all of them.
  bool operator==(const ClusterRef&) const = default;
};

struct Scenario {
  Scenario() { strategy.dp = strategy.dp_replicate = 0; }

  std::string schema{kScenarioSchema};
  ModelRef model;
  ClusterRef cluster;
  FrameworkSettings framework;
  TrainingSettings training;
  /// `dp` and `dp_replicate` are 0 where the file leaves them out ("auto"), until resolve_axes.
  StrategySettings strategy;
  KernelSettings kernels;
  InputSettings input;
  std::string calibration;       ///< Profile, name or file; empty takes the one that belongs to the GPU.
  std::string collective_table;  ///< File of measured collectives (rehearse/collective_table/v1); empty: none.

  // Not part of its value:
  std::string origin;                         ///< File the scenario came from, for messages.
  std::set<std::string, std::less<>> stated;  ///< Keys that its file, what that extends, or an override has.
  std::vector<std::string> warnings;          ///< One line each: spellings that are read, and have been replaced.

  /// Equal whatever the origin, and whichever keys were stated with their defaults.
  bool operator==(const Scenario& other) const;
};

/// Text that holds a '/' or ends in ".json" names a file, anything else a registered thing.
[[nodiscard]] bool is_file_reference(std::string_view text);

/// Reads a scenario file. `"extends": "base.json"` reads that one first (relative to the file that says it) and merges:
/// objects key by key, everything else replaces. Then each of `overrides`, "strategy.tp=8": the value is JSON if it
/// parses as JSON, else text. File references become relative to the current directory. Every file and every override
/// is checked by itself, so that an error names the one that is wrong. Throws for unknown keys, wrong types, values out
/// of range, files that extend each other in a ring, and what check_scenario refuses.
[[nodiscard]] Scenario load_scenario(const std::string& path, const std::vector<std::string>& overrides = {});
/// The same from text; `origin` is its path, real or for messages only.
[[nodiscard]] Scenario parse_scenario(std::string_view text, const std::string& origin,
                                      const std::vector<std::string>& overrides = {});

/// What can be checked without model and cluster: dp = dp_replicate * dp_shard; placement lists known axes once each
/// and every axis larger than one; and, once dp is known, global_batch divisible by dp * microbatch and etp * ep
/// dividing dp * cp * tp. Throws with the equation.
void check_scenario(const Scenario& scenario);

/// Fills dp and dp_replicate where they are automatic, from devices = dp * cp * tp * pp * tile_h * tile_w, then
/// check_scenario. Throws with the equation, "dp(2) * tp(8) * pp(4) = 64 != 128 GPUs", when the axes don't make up
/// `devices`. Idempotent.
void resolve_axes(Scenario& scenario, int devices);

/// The scenario with every default written out, keys in the table's order, two spaces of indent, a newline at the end.
/// Reading it again gives an equal scenario. File references are written relative to `directory`, where the text will
/// be saved.
[[nodiscard]] std::string resolved_json(const Scenario& scenario, const std::string& directory = {});

/// The same with nothing but what is stated (Scenario::stated), model and cluster.
[[nodiscard]] std::string stated_json(const Scenario& scenario, const std::string& directory = {});

/// The value of one key as JSON: "8", "\"ring\"", "true"; "null" where its absence means nothing. Throws
/// std::logic_error for a key that the format lacks.
[[nodiscard]] std::string setting(const Scenario& scenario, std::string_view key);
/// Sets one key, from JSON, as reading a file would. `stated` is left as it is. Throws Error (usage) for what the key
/// does not take, `origin` being where the value is from.
void set(Scenario& scenario, std::string_view key, std::string_view value, const std::string& origin);

/// One key of the file as `list` and completion show it.
struct KeyHelp {
  std::string key;       ///< "strategy.tp"
  std::string type;      ///< "integer", "one of: none, selective, full", "size", ...
  std::string range;     ///< "1 to 10000000"; empty where the type says it all.
  std::string fallback;  ///< Default as JSON; "required" where there is none, empty where absence means nothing.
  std::string help;      ///< One line.
  bool seldom = false;   ///< What few set: left out of a first list.
};
/// Every key, in the order of the resolved form.
[[nodiscard]] std::vector<KeyHelp> scenario_keys();

/// Help on one key ("strategy.tp", or "tp": the outermost key of that name): type, range, default, meaning, example. On
/// a group
/// ("strategy"): its members. Empty lists the groups. Ends in a newline. Throws with did-you-mean.
[[nodiscard]] std::string explain(std::string_view key);

/// JSON Schema (draft 2020-12) of the scenario file, for editors.
[[nodiscard]] std::string scenario_json_schema();

}  // namespace rehearse
