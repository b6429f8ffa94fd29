#pragma once
// What a task prints: the question with as many hints as were asked for, and what became of an attempt.

#include <optional>

#include "core/lesson/task.hpp"
#include "core/report/formats/document.hpp"

namespace rehearse {

inline constexpr const char* kTaskResultSchema = "rehearse/task_result/v1";

/// The question, what may be changed, and the first `hints` hints.
[[nodiscard]] Document task_document(const LessonTask& task, std::size_t hints);

/// The question again, what was predicted beside what came out (where something was), each goal, and the explanation
/// where the task is solved. `predicted` is of TaskPrediction::figure.
[[nodiscard]] Document attempt_document(const LessonTask& task, const TaskAttempt& attempt,
                                        std::optional<double> predicted);

}  // namespace rehearse
