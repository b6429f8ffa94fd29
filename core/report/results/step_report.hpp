#pragma once
// The answer to "how long does a step take, and why": what simulate, estimate and run print.

#include <memory>
#include <string>
#include <vector>

#include "core/play/backend.hpp"
#include "core/play/metrics.hpp"
#include "core/price/calibration/calibration.hpp"
#include "core/price/stage_memory.hpp"
#include "core/report/formats/document.hpp"
#include "core/report/pictures/gantt.hpp"
#include "core/scoreboard/prediction_range.hpp"
#include "core/trace/trace.hpp"

namespace rehearse {

inline constexpr const char* kResultSchema = "rehearse/result/v1";

/// What was asked, in the words of the first line.
struct PlanSummary {
  std::string model;
  double parameters = 0;
  int gpus = 0;
  std::string cluster;
  std::string strategy;
  int microbatches = 0;             ///< Per replica and step.
  std::string samples = "samples";  ///< What they are called: "images" of a network over images.
};

/// What every JSON result starts with.
struct ReportHead {
  std::string version;        ///< Of the program.
  std::string scenario_json;  ///< Resolved; a complete JSON object.
  PlanSummary plan;
};

struct StepReport {
  ReportHead head;
  StepMetrics metrics;  ///< As modelled: of the step that trace and breakdown show.
  /// Of the step time; no rows where it was measured and not predicted.
  PredictionRange range;
  MemoryReport memory;
  Seconds begin;        ///< Of the step that is reported, on the trace's clock.
  Breakdown breakdown;  ///< Of the slowest rank.
  Breakdown mean;       ///< Over all ranks; adds up to the step time.
  int slowest_rank = 0;
  std::string slowest_role;
  std::string backend;
  bool folded = false;
  std::string folding;
  std::vector<RunResult::LinkLoad> busiest_links;
  std::vector<double> link_bytes;  ///< As in RunResult, for the picture of the wires.
  Seconds link_time;
  std::vector<EvidenceItem> evidence;
  std::shared_ptr<const Trace> trace;  ///< For the picture; may be null.
  std::vector<GanttRow> rows;
};

/// What is answered: metrics and breakdowns with the known bias of such predictions applied, all in proportion, so that
/// the step time is the middle of its range. The trace stays as modelled.
[[nodiscard]] StepReport with_bias(StepReport report);

/// Says what with_bias() has. JSON: `modelled_step_time_s` is the step time without the bias, and `bias` the one over
/// the other, less one.
[[nodiscard]] Document step_document(const StepReport& modelled);

/// The answer of `memory`, and of every verb where the plan does not fit: no times.
[[nodiscard]] Document memory_document(const ReportHead& head, const MemoryReport& memory);

}  // namespace rehearse
