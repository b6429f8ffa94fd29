#pragma once
// What training software does. A profile (topologies/frameworks/<name>.json, rehearse/framework/v1) holds the facts of
// one framework and how they changed from release to release, each with where it can be read. A fact is a value of a
// key of the scenario that the software decides and not its user: which kernels it fuses, what its checkpoints keep,
// when it reduces gradients. Profiles hold no rate and no time.
//
//   const Frameworks frameworks = Frameworks::load(data.topologies() / "frameworks");
//   const Framework torchtitan = frameworks.find("torchtitan@0.2");
//   const std::vector<TakenFact> taken = take(torchtitan, scenario, {.gpu_generation = "hopper"});
//
// What a scenario states goes before the profile. Inside a profile a release goes before the one before it, and of one
// release the facts that are tied to a condition go before those that hold always.

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/scenario.hpp"
#include "core/hardware/specs.hpp"

namespace rehearse {

/// A value of one key of the scenario, and why.
struct FrameworkFact {
  std::string key;    ///< "framework.host", "strategy.overlap.grad_reduce"
  std::string value;  ///< As JSON.
  Source source;      ///< File and commit of the framework's code.
  std::string note;   ///< May be empty.
};

/// One condition on a job.
struct FrameworkCondition {
  std::string key;  ///< "gpu_generation", or a key of the scenario.
  /// Any of these, as JSON. Empty where `above` says it.
  std::vector<std::string> any_of;
  double above = 0;  ///< The key is a number, and greater.

  /// "strategy.tp above 1", "gpu_generation hopper or blackwell"
  [[nodiscard]] std::string text() const;
};

/// Facts that hold where all conditions are met.
struct FrameworkRule {
  std::string release;                   ///< That brought it; empty: from the first release on.
  std::vector<FrameworkCondition> when;  ///< Empty: always.
  std::vector<FrameworkFact> facts;
  int precedence = 0;  ///< Greater goes first.
};

enum class Able { yes, no, unknown };
[[nodiscard]] std::string_view name_of(Able able);

/// Whether the software can do something.
struct Ability {
  std::string kind;  ///< One of kAbilityKinds.
  std::string name;  ///< "zb_h1", "expert_parallel", "selective", "fp8_mixed", "adamw"
  Able able = Able::unknown;
  Source source;
};
inline constexpr std::array<std::string_view, 6> kAbilityKinds{"schedule",  "strategy",  "recompute",
                                                               "precision", "optimizer", "offload"};

/// One release of one framework: everything that its profile, and those that it builds on, say of it.
struct Framework {
  std::string name, title;
  std::string release, date;         ///< Date: "2025-10", empty where nobody says.
  std::vector<FrameworkRule> rules;  ///< In order of rising precedence.
  std::vector<Ability> abilities;    ///< Each kind and name once.

  /// "torchtitan@0.2"
  [[nodiscard]] std::string id() const { return name + "@" + release; }
  /// Unknown where the profile is silent.
  [[nodiscard]] Ability can(std::string_view kind, std::string_view what) const;
};

/// What conditions may ask for besides a scenario's keys.
struct FrameworkSite {
  std::string gpu_generation;  ///< "hopper"
};

/// A fact as it was taken, or not.
struct TakenFact {
  FrameworkFact fact;
  std::string framework;  ///< "torchtitan@0.2"
  bool stated = false;    ///< The scenario states the key: the fact was left.
};

/// Sets the keys of `scenario` that it does not state as `framework` has them. Axes must be resolved, as conditions ask
/// for their sizes. Throws Error (usage) where two conditions of one release are met and give a key two values.
std::vector<TakenFact> take(const Framework& framework, Scenario& scenario, const FrameworkSite& site);

/// What `strategy` asks for and the framework cannot do.
[[nodiscard]] std::vector<Ability> lacking(const Framework& framework, const StrategySettings& strategy);
/// The same of a scenario, its precision and its optimizer included.
[[nodiscard]] std::vector<Ability> lacking(const Framework& framework, const Scenario& scenario);

/// What recomputing whole layers, or "selective", means where checkpoints are PyTorch's (framework.checkpoints): a
/// layer to the last value that backward reads (`recompute_modules` "layer"), and every second product kept
/// ("every_second_product": the policy by operators of torchtitan and others). Leaves modules that are stated.
void apply_checkpoints(Scenario& scenario);

/// All profiles of a folder.
class Frameworks {
 public:
  /// Throws Error (usage) with file and JSON path for anything that is missing, unknown, mistyped, or cited and not
  /// among the sources; for a source that nothing cites; for values that a key does not take.
  [[nodiscard]] static Frameworks load(const std::filesystem::path& directory);

  /// "torchtitan@0.2.0"; "torchtitan@0.2" for the newest of that line, "torchtitan" for the newest of all. Throws Error
  /// (usage) with the names that there are.
  [[nodiscard]] const Framework& find(std::string_view id) const;
  /// In order of name, then from the oldest release to the newest.
  [[nodiscard]] const std::vector<Framework>& all() const { return all_; }

 private:
  std::vector<Framework> all_;
};

}  // namespace rehearse
