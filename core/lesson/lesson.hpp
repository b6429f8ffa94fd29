#pragma once
// A lesson (`rehearse/lesson/v1`): a few plans, pictures to draw of them, and what they teach, in sentences whose
// figures are filled in from the results. A replay is a lesson with measurements: somebody's published result beside
// the prediction.
//
//   { "schema": "rehearse/lesson/v1",
//     "title": "One process or one per GPU", "question": "Why is DataParallel slower than DistributedDataParallel?",
//     "plans": [{ "key": "ddp", "title": "a process per GPU", "scenario": "resnet50.json" },
//               { "key": "funnel", "title": "one process", "scenario": "resnet50.json", "set":
//               ["strategy.data_parallel=funnel"] }],
//     "pictures": [{ "kind": "steps" }, { "kind": "time" }, { "kind": "bars", "title": "Images per second", "figure":
//     "samples_per_s" }], "says": ["The funnel takes {funnel.step_time / ddp.step_time|times} as long.",
//              { "if": "funnel.time.bubble > 0.5 * funnel.step_time", "then": "...", "else": "..." },
//              { "say": "So the funnel costs time.", "rests_on": ["the funnel is slower"] }],
//     "shows": [{ "claim": "the funnel is slower", "holds": "funnel.step_time > ddp.step_time" }],
//     "next": ["rehearse simulate ..."] }
//
// A plan may have a "fleet" in place of a "scenario": a shared cluster that is played under its policy. Plans of one
// lesson are all of one kind. Beside a scenario there may be "reliability", with the keys that a plan file
// (rehearse/plan/v1) has under that name: then the figures run.* say what failures and checkpoints cost a long run.
//
// Figures are KEY.FIGURE: the plan's key and a figure of figures.hpp, and texts are KEY.TEXT. A sentence whose figures
// have no value, since a plan does not fit into memory, is left out, and the lesson says so. All errors are Error
// (usage) with the place in the file.

#include <optional>
#include <string>
#include <vector>

#include "core/lesson/figure_text.hpp"

namespace rehearse {

inline constexpr const char* kLessonSchema = "rehearse/lesson/v1";

struct LessonPlan {
  std::string key;                   ///< Lower-case word: what figures start with, and the label in pictures.
  FigureText title;                  ///< Its figures are the plan's own.
  std::string file;                  ///< Of the scenario or fleet, found from the lesson's own place.
  bool is_fleet = false;             ///< It is a shared cluster (rehearse/fleet/v1).
  std::vector<std::string> changes;  ///< As --set takes them.
  std::string reliability;           ///< A JSON object; empty: nothing is said of failures.
};

enum class PictureKind {
  steps,
  time,
  memory,
  bars,
  ring,   ///< A ring all-reduce of all GPUs, step by step.
  nodes,  ///< Of fleets: which queue holds each node over time, and how many jobs wait.
  hours   ///< Of fleets: where all GPU-hours went.
};

/// "steps", "time", "memory", "bars", "ring", "nodes", "hours".
[[nodiscard]] std::string_view name_of(PictureKind kind);

struct LessonPicture {
  PictureKind kind = PictureKind::steps;
  std::string title;               ///< Empty: the kind's own.
  std::string figure;              ///< Of `bars`: one of every plan.
  std::string form;                ///< Of `bars`: figure_forms().
  std::vector<std::string> plans;  ///< Keys; empty: all.
};

/// A sentence, or one of two.
struct Saying {
  std::optional<Formula> condition;
  FigureText text;
  std::optional<FigureText> otherwise;
  /// Claims of `shows` that its words rest on. Where one does not hold, that is said in the sentence's place.
  std::vector<std::string> rests_on;
};

/// What the lesson is there to show; checked each time.
struct Showing {
  std::string claim;
  Formula holds;
};

/// How far a measured figure can be trusted.
enum class Standing {
  measured,  ///< Read in its source: counts in error figures.
  /// Quoted from memory or from a copy of a copy, or its configuration is not stated: shown, counts nowhere.
  unverified,
  claim  ///< No source, or not a measurement: shown as said, counts nowhere.
};
/// "measured", "unverified", "claim".
[[nodiscard]] std::string_view name_of(Standing standing);

struct MeasuredFigure {
  std::string id;
  std::string what;  ///< "8 GPUs: training"
  std::string unit;
  double measured = 0;               ///< In `unit`; not 0.
  std::optional<Formula> predicted;  ///< In `unit`; absent: why it cannot be is in `skipped`.
  std::string skipped;
  Standing standing = Standing::measured;
  std::string source;  ///< May be empty for a claim only.
  std::string note;
};

/// What is often said, beside what the original says.
struct PopularClaim {
  std::string claim, verdict, original;
};

struct Lesson {
  std::string name;    ///< Of its folder or file.
  std::string origin;  ///< The file.
  std::string title;
  FigureText question;  ///< May be empty; its figures are those that do not need a step.
  std::vector<LessonPlan> plans;
  std::vector<LessonPicture> pictures;
  std::vector<Saying> says;
  std::vector<Showing> shows;
  std::vector<std::string> next;     ///< Commands to go on with.
  std::vector<std::string> assumes;  ///< What the published result leaves open, and what is taken instead.
  std::vector<MeasuredFigure> measurements;
  std::vector<PopularClaim> claims;
};

/// Reads the file at `path`.
[[nodiscard]] Lesson load_lesson(const std::string& path);
/// `origin` stands for the file in errors, and scenarios are looked for beside it.
[[nodiscard]] Lesson parse_lesson(const std::string& text, const std::string& origin);

}  // namespace rehearse
