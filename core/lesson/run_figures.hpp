#pragma once
// What failures and checkpoints cost a long run of a plan: figures run.* of figures.hpp.

#include <string>
#include <vector>

#include "core/lesson/figures.hpp"
#include "core/lesson/lesson.hpp"
#include "core/plan/reliability.hpp"

namespace rehearse {

/// What the plan says of failures, with `changes` to it as --set takes them ("reliability.restart=5min"). `where` is
/// its place, for errors. Throws Error (usage) for what is no setting of a plan's reliability.
[[nodiscard]] ReliabilitySettings reliability_of(const LessonPlan& plan, const std::vector<std::string>& changes,
                                                 const std::string& where);

/// By goodput() (core/plan/reliability.hpp), whose shares for stragglers and spares stay out.
[[nodiscard]] Figures run_figures(const ReliabilitySettings& settings, const GoodputRequest& request);

}  // namespace rehearse
