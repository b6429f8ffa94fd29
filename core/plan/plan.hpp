#pragma once
// A plan: what is to be trained, by when, for how much, and the machines that might do it. The file format is
// `rehearse/plan/v1`; its own keys are one table (plan_keys.cpp), from which parsing, unknown-key checks and `explain
// plan.KEY` are derived. The groups `model`, `framework`, `training`, `kernels`, `strategy` and `calibration` are a
// scenario's, with the same keys.
//
// All errors are Error (usage) with `where` "file: /json/path".

#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/scenario.hpp"
#include "core/plan/cost.hpp"
#include "core/plan/price.hpp"
#include "core/plan/reliability.hpp"

namespace rehearse {

class ObjectReader;

inline constexpr std::string_view kPlanSchema = "rehearse/plan/v1";

/// What the best candidate has least of.
enum class PlanObjective {
  cost,    ///< Money for the run: RunCost::parts.
  days,    ///< Time to the end of the run.
  energy,  ///< Of the site.
  capital  ///< Money before the first step.
};
template <>
const std::vector<std::string>& names_of<PlanObjective>();
[[nodiscard]] inline const std::string& name_of(PlanObjective v) {
  return names_of<PlanObjective>()[static_cast<std::size_t>(v)];
}

/// A machine that might do it.
struct PlanCandidate {
  std::string name;            ///< As reports call it; empty: the machine's id.
  std::string machine;         ///< Registered name or file; empty: `cluster`.
  std::string cluster;         ///< In place of machine: a registered cluster or file, taken as it is.
  std::string network;         ///< Registered name or file; empty: one machine only.
  std::optional<bool> rented;  ///< Empty: rented where only a rental price is known.
  /// Figures in place of those of topologies/prices; of a cluster, of all its machines.
  MachinePrice price;
  std::string price_date, price_source;  ///< Of those figures.
  double lead_days = 0;                  ///< From the order until they compute.
  std::optional<int> max_machines;       ///< Most that can be had.
  std::optional<int> spares;             ///< In place of reliability.spares.
  std::string reliability;               ///< Profile in place of reliability.profile.
  std::string where;                     ///< "plan.json: /candidates/0"
};

/// How far the true step time may be from the predicted one: it is `low` to `high` times as long in 80 % of cases.
struct StepRange {
  double low = 1, high = 1;
  std::string source{};  ///< One line on what it rests on.
  double middle = 1;     ///< What the modelled step time was multiplied by: a known bias, applied.

  /// What the true step time is below with probability `odds`, over the predicted one. Errors are taken as lognormal on
  /// either side of the prediction. 0 < odds < 1.
  [[nodiscard]] double quantile(double odds) const;
  /// How likely the true step time is above `times` the predicted one; 0 or 1 where the range is a point.
  [[nodiscard]] double odds_above(double times) const;
};

struct Plan {
  std::string name;
  std::string question;         ///< Empty: made of the figures.
  Scenario base;                ///< Model, training, kernels, strategy; its cluster is the first candidate's.
  std::set<std::string> fixed;  ///< Keys of `strategy` that the file states: not searched.
  Seconds deadline;
  std::optional<Dollars> budget;          ///< For RunCost::parts.
  std::optional<Dollars> capital_budget;  ///< For RunCost::capital.
  std::optional<Dollars> annual_budget;   ///< For RunCost::a_year.
  PlanObjective objective = PlanObjective::cost;
  /// How likely the chosen size is to be in time at least, errors of the predicted step counted. 0.5 to 0.999.
  double odds = 0.9;
  /// The global batch may differ from the one asked for by this share, so that it divides over any number of machines.
  /// 0..1.
  double batch_tolerance = 0.1;
  int max_gpus = 16384;                         ///< Of one candidate.
  std::optional<double> range_low, range_high;  ///< In place of the scoreboard's errors (StepRange).
  Economics economics;
  ReliabilitySettings reliability;
  std::vector<PlanCandidate> candidates;  ///< At least one.
  std::string origin;
};

/// Reads a plan. Each of `overrides`, "deadline_days=30" or "candidates.0.max_machines=8", replaces a value: JSON if it
/// parses as JSON, else text. File references become relative to the current directory. Throws for unknown keys, wrong
/// types, values out of range, no tokens, no candidates.
[[nodiscard]] Plan load_plan(const std::string& path, const std::vector<std::string>& overrides = {});
/// The same from text; `origin` is its path, real or for messages only.
[[nodiscard]] Plan parse_plan(std::string_view text, const std::string& origin,
                              const std::vector<std::string>& overrides = {});

/// The keys of a plan's `reliability` alone, of another file that has them. Throws for unknown keys, wrong types,
/// values out of range.
[[nodiscard]] ReliabilitySettings read_reliability(ObjectReader& reader);

/// Every key of a plan's own, "plan.deadline_days", in the order of the table.
[[nodiscard]] std::vector<KeyHelp> plan_keys();
/// Help on a key ("plan.reliability.restart") or group ("plan", "plan.economics"); ends in a newline. Throws with
/// did-you-mean.
[[nodiscard]] std::string explain_plan(std::string_view key);

}  // namespace rehearse
