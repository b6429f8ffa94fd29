#pragma once
// The figures of a plan that formulas in lessons may ask for, by name.
//
//   fits, needed, capacity, memory.CATEGORY    bytes on the fullest device; CATEGORY as in JSON's by_category (weights,
//   gradients, ...). Known even
//                                              where the plan does not fit; of the rest, `gpus`, `parameters` and
//                                              `microbatches` too
//   gpus, parameters, microbatches, stages     of the plan; `stages` counts kinds of ranks that differ by stage
//   samples, step_time, samples_per_s, tokens_per_s, mfu, hfu, model_flops        of a step (s, FLOP); `samples` are
//   those of one step time.CATEGORY                              seconds of the slowest rank; CATEGORY as in JSON's
//   breakdown (matmul, exposed_dp, bubble, ...) time.compute, time.communication           sums: everything but
//   communication, input and bubble; every exposed axis and exposed copies mean.CATEGORY the same, mean of the ranks
//   payload.AXIS                               bytes that one rank hands to communication of that axis in a step: what
//   collectives reduce or gather,
//                                              not what crosses the wire; the largest of the ranks drawn. Of axes whose
//                                              messages a trace tells apart ("dp" always; "tp" and "tile" run as parts
//                                              of their layers)
//   link.used, link.bytes                      the busiest link's share of the step and its bytes
//
//   set.KEY                                    what the scenario says of a key that is a number, a size, a rate or a
//                                              time, defaults written out: set.training.sequence_length
//
// Of a plan that says something of failures ("reliability"), for a run that never ends:
//
//   run.mtbf, run.stops_per_day                between two failures of any part (s), and how many that are in a day
//   run.checkpoint, run.write, run.interval    bytes of a checkpoint, time to write it, time between two of them (s)
//   run.restart                                from a failure until training goes on (s), reading included
//   run.training, run.writing, run.lost        shares of the time: for training; for writes; for work that is done
//                                              again and for restarts. They add up to 1
//
// Texts, for the form "word": model, cluster, strategy, samples ("images"), and set.KEY of any key.
//
// Of a fleet:
//
//   gpus, jobs, ended, preemptions, played     `played` in seconds, from the first arrival to the last end
//   wait.mean, wait.p50, wait.p90, wait.most   seconds that jobs waited; completion: mean from arrival to end
//   held, fairness                             share of all GPU time that jobs held; Jain's index
//   hours.PART                                 GPU-hours; PART is useful, lost, restarts, down, order, quota,
//   fragments, busy (free while a job waited, by why) or unwanted. They add up to hours.capacity
//   waited.WHY                                 seconds that all jobs together waited for order, quota, fragments, busy
//   queue.NAME.own, .held, .asked              GPUs, on average; queue.NAME.preemptions, .wait.mean, .wait.p90,
//   .wait.most, .completion                    of its jobs

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/lesson/figure_text.hpp"
#include "core/report/fleet/fleet_report.hpp"
#include "core/report/results/step_report.hpp"

namespace rehearse {

using Figures = std::map<std::string, double>;
using Words = std::map<std::string, std::string>;

/// A fleet and what it did.
struct FleetAnswer {
  fleet::Fleet fleet;
  fleet::FleetResult result;
  [[nodiscard]] PlayedFleet played(const std::string& label) const { return {label, &fleet, &result}; }
};

/// What became of one plan of a lesson. Where it does not fit, `report` holds head and memory only.
struct LessonAnswer {
  std::string key;
  std::string title;
  StepReport report;
  Figures figures;
  std::shared_ptr<const FleetAnswer> fleet{};  ///< Of a plan that is a fleet, which has no report.
  Figures settings{};                          ///< set.KEY; apart from what was worked out.
  Words words{};
};

[[nodiscard]] Figures figures_of(const StepReport& report);
[[nodiscard]] Figures figures_of(const FleetAnswer& answer);
/// What became of a scenario; without its title.
[[nodiscard]] LessonAnswer answer_of(const std::string& key, StepReport report);

/// The value of KEY.FIGURE. Nothing where the plan does not fit and the figure is one of time. Throws Error (usage)
/// with did-you-mean for a plan or figure that is not there.
[[nodiscard]] std::optional<double> figure(const std::vector<LessonAnswer>& answers, const std::string& name);
/// The text KEY.TEXT. Throws as figure().
[[nodiscard]] std::string word(const std::vector<LessonAnswer>& answers, const std::string& name);
/// `text` with figures and texts of `answers`. Nothing where one of its figures has no value.
[[nodiscard]] std::optional<std::string> filled(const FigureText& text, const std::vector<LessonAnswer>& answers);
/// Fills in the titles, each with the figures of all plans.
void entitle(const std::vector<FigureText>& titles, std::vector<LessonAnswer>& answers);

}  // namespace rehearse
