#pragma once
// What pages draw of an answer beside its JSON: parts of a report by name, each a complete JSON text, as
// core/report/html/html_report.hpp takes them. Command line, notebooks and playground draw from the same.
//
//   const rehearse::StepReport step = rehearse::simulate(session, program);
//   const rehearse::PageParts parts = rehearse::step_pictures(session, program, step);

#include <string>
#include <utility>
#include <vector>

#include "core/api/session/session.hpp"
#include "core/lesson/figures.hpp"
#include "core/report/results/step_report.hpp"

namespace rehearse {

using PageParts = std::vector<std::pair<std::string, std::string>>;

/// "plan" of any answer; of a step with a trace also "gantt" (who computes when), "course" (memory over the step),
/// "topology" (wires, and what they carried); and "roofline" (kernels by what they compute and move).
[[nodiscard]] PageParts step_pictures(const Session& session, const Program& program, const StepReport& report);

/// "gantts": the steps of a lesson's plans that were played, each with the plan's key as `name`.
[[nodiscard]] PageParts lesson_pictures(const std::vector<LessonAnswer>& answers);

}  // namespace rehearse
