#pragma once
// One candidate at one size: from the best step on that many machines to days, money and energy.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/plan/plan.hpp"
#include "core/price/stage_memory.hpp"

namespace rehearse {

/// The best way found to run a step on some machines.
struct StepChoice {
  StrategySettings strategy;
  std::string label;              ///< "tp=8 pp=2 dp=26 mb=1 interleaved_1f1b(5) zero=1": what tells it from others.
  std::int64_t global_batch = 0;  ///< Sequences; within batch_tolerance of the one asked for.
  Seconds step_time;              ///< As played, where it was; else by closed form.
  double mfu = 0;
  Bytes needed, capacity;   ///< Memory of the fullest GPU, and what there is of it for a program.
  Seconds closed_form{};    ///< The step by closed form; 0 where it was not played.
  std::string played_by{};  ///< Back end; empty where it was not played.
  std::string why_not_played{};
  Bytes allocated{};  ///< What tensors and workspace hold of `needed`.

  [[nodiscard]] double fullness() const { return needed / capacity; }
  /// As StageMemory::barely().
  [[nodiscard]] bool nearly_full() const { return fullness() > 1 - kLeastHeadroom; }
};

struct StepAnswer {
  std::optional<StepChoice> choice;
  std::string why_not;             ///< Where there is none.
  std::vector<StepChoice> others;  ///< Where looked at thoroughly: the next best by closed form, best first.
  std::int64_t evaluated = 0;      ///< Strategies priced.
};

/// Finds the best step for one candidate. Implementations keep prices between calls; equal calls give equal answers.
class StepSearch {
 public:
  virtual ~StepSearch() = default;
  /// `thorough` looks at what takes longer too.
  [[nodiscard]] virtual StepAnswer best(int machines, bool thorough = false) = 0;
  /// The best of a thorough answer's choices as a back end plays them at their size: those whose closed form is below
  /// the best played step. Nothing where nothing plays.
  [[nodiscard]] virtual std::optional<StepChoice> played(int /*machines*/, const StepAnswer& /*answer*/) { return {}; }
};

/// What a plan needs to know of a machine.
struct MachineFacts {
  std::string id, name, gpu, generation;
  /// Of one machine, all its trays together; of a set of several kinds the mean, as are the next ones.
  double gpus = 1;
  double nics = 0;
  double hosts = 1;
  Watts rated;                   ///< Maximum of one machine.
  bool rated_estimated = false;  ///< From the GPUs' power, as the machine's file states none.
  FlopsPerSecond peak;           ///< Dense, of one machine, in the precision of the plan.
  std::optional<int> most;       ///< Machines that the network holds.
  std::string network;
  std::optional<int> set;  ///< Machines of a cluster that is taken as it is.
};
/// GPUs are taken as 55 % of the rated power where a machine states none: DGX H100 has 8 x 700 W of 10.2 kW, DGX B200 8
/// x 1000 W of 14.3 kW. `as_it_is`: the whole cluster is the candidate. Throws Error (usage) where a GPU lacks the
/// precision.
[[nodiscard]] MachineFacts machine_facts(const Cluster& cluster, Precision precision, bool as_it_is = false);

/// A candidate with everything looked up.
struct CandidateSite {
  PlanCandidate candidate;
  MachineFacts facts;
  MachinePrice price;  ///< The file's, with the plan's figures in place of its own.
  bool rented = false;
  ReliabilityProfile reliability;
  /// Of steps of such a strategy on such machines; empty: exact.
  std::function<StepRange(const StrategySettings&)> range;
  Flops flops_per_token;  ///< Of the model, forward and backward.
  double tokens_per_sequence = 0;
  Bytes checkpoint;  ///< Parameters and optimizer state of the whole model.
  std::unique_ptr<StepSearch> search;
  std::function<bool()> stop;                  ///< true: no further size is tried. Empty: never.
  std::function<void(double share)> progress;  ///< About how much of this candidate is done, 0 to 1. May be empty.
  PeakRange peak{};                            ///< Of memory; no rows: nothing is known.
};

/// Whether the plan pays by the hour. Throws Error (usage) at the candidate where the price that this needs is unknown.
[[nodiscard]] bool is_rented(const PlanCandidate& candidate, const MachinePrice& price);

struct PlanPoint {
  int machines = 1;  ///< That train.
  int gpus = 1;      ///< Of those.
  int spares = 0;
  StepChoice step;
  Goodput goodput;
  Seconds duration;  ///< tokens / (global_batch tokens_per_sequence) step_time / goodput.total.
  Seconds end;       ///< From the order: lead time and duration.
  RunCost cost;
};

/// From a step to days, money and energy.
[[nodiscard]] PlanPoint plan_point(const Plan& plan, const CandidateSite& site, int machines, StepChoice step);
/// The best step found on so many machines. `why_not` is set where there is none.
[[nodiscard]] std::optional<PlanPoint> plan_point(const Plan& plan, CandidateSite& site, int machines,
                                                  std::int64_t& evaluated, std::string& why_not);
/// The same looked at thoroughly, and played where something plays.
[[nodiscard]] std::optional<PlanPoint> played_point(const Plan& plan, CandidateSite& site, int machines,
                                                    std::int64_t& evaluated);

/// What the money of a run would be if one figure were another.
struct Swing {
  std::string what;            ///< "price of a machine", "utilisation".
  std::string from, to;        ///< The figure at either end: "$320k".
  Dollars cost_from, cost_to;  ///< RunCost::parts.
  [[nodiscard]] Dollars width() const { return cost_from < cost_to ? cost_to - cost_from : cost_from - cost_to; }
};
/// For the size at hand, what moves its cost most first. `site` is as it was when this returns.
[[nodiscard]] std::vector<Swing> swings(const Plan& plan, CandidateSite& site, const PlanPoint& point,
                                        const StepRange& range);

struct CandidateAnswer {
  PlanCandidate candidate;
  MachineFacts facts;
  MachinePrice price;
  bool rented = false;
  ReliabilityProfile reliability;
  StepRange range;
  std::optional<PlanPoint> point;  ///< The size chosen (answer_candidate); empty where none runs.
  /// Sizes tried, by machines, each faster than the one before; `point` among them.
  std::vector<PlanPoint> curve;
  bool meets_deadline = false;
  bool meets_deadline_high = false;  ///< Also with the step time that Plan::odds ask for.
  double odds_late = 0;              ///< How likely the run ends after the deadline.
  std::vector<Swing> swings;         ///< Of `point`.
  /// What an hour of such a GPU costs to rent, from its own price or from that of another candidate, `rented_from`; for
  /// machines that are bought.
  std::optional<Dollars> rent;
  std::string rented_from;
  std::optional<double> break_even;  ///< break_even_months() at that rent; empty where it never pays.
  bool meets_budget = false;         ///< All budgets.
  std::string why_not;               ///< What it does not meet, or why none runs.
  std::int64_t evaluated = 0;
  bool interrupted = false;  ///< Sizes were left out, as CandidateSite::stop asked.
  std::string play_line;     ///< A command that plays `point`; empty where nobody has said.
  PeakRange peak{};          ///< CandidateSite::peak.
};

/// A size is in time where it meets the deadline with the odds that the plan asks for. Where none does, those count
/// that meet it as predicted.
///
/// Of the sizes tried that are in time and within the budgets, the one that has least of what `plan.objective` counts,
/// and of those within 5 % of the least cost or energy the smallest; where none is within the budgets, that in time
/// which is nearest to them; where none is in time, the fastest. Sizes not faster than a smaller one don't count: the
/// machines beyond it may as well stand idle.
///
/// Sizes below the one at which the machine's peak would meet the deadline are ruled out; above, sizes are tried by
/// interpolation and then, as speed does not grow evenly with size, all those that the best rate per machine found
/// could do it with, from the smallest on; then half to four times the fewest in time, and for the fastest up to the
/// limit or the budgets. Where all those are too large to be run, smaller ones are tried. The size chosen is searched
/// thoroughly and played, until the size that is then chosen was.
[[nodiscard]] CandidateAnswer answer_candidate(const Plan& plan, CandidateSite& site);

}  // namespace rehearse
