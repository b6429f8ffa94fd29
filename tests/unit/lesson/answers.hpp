#pragma once
// Answers made up for tests: no plan is played.

#include "core/lesson/lesson_report.hpp"

namespace rehearse::test {

/// A plan that took `seconds`, half of it waiting, with `gib` of 16 GiB needed.
inline LessonAnswer answer(const std::string& key, double seconds, double gib = 8) {
  LessonAnswer a{key, "plan " + key, {}, {}, nullptr};
  a.report.head.plan = {"net", 1e6, 2, "box", "dp 2", 4, "images"};
  StageMemory stage;
  stage.needed = Bytes{gib * (1ULL << 30)};
  stage.capacity = Bytes{16.0 * (1ULL << 30)};
  stage.memory.by_category[0] = Bytes{1.0 * (1ULL << 30)};
  a.report.memory.stages = {stage};
  if (a.report.memory.fits()) {
    a.report.metrics.step_time = Seconds{seconds};
    a.report.metrics.samples_per_s = 8 / seconds;
    a.report.breakdown[TimeCategory::matmul] = Seconds{seconds / 2};
    a.report.breakdown[TimeCategory::bubble] = Seconds{seconds / 2};
  }
  a.figures = figures_of(a.report);
  return a;
}

inline const char* kLesson = R"({
  "schema": "rehearse/lesson/v1", "title": "T", "question": "Q?",
  "plans": [{ "key": "a", "title": "first", "scenario": "s.json" }, { "key": "b", "title": "second",
  "scenario": "s.json", "set": ["strategy.tp=2"] }],
  "pictures": [{ "kind": "time" }, { "kind": "memory" }, { "kind": "bars", "figure": "samples_per_s",
  "form": "count" }],
  "says": ["b takes {b.step_time / a.step_time|times} as long.", { "if": "b.fits", "then": "fits",
  "else": "too large" }],
  "shows": [{ "claim": "b is slower", "holds": "b.step_time > a.step_time" }]
})";

}  // namespace rehearse::test
