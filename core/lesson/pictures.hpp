#pragma once
// Pictures of several plans, in characters: 80 columns are enough, and no colour is needed.

#include <optional>
#include <string>
#include <vector>

#include "core/lesson/figures.hpp"
#include "core/lesson/lesson.hpp"

namespace rehearse {

/// A bar of a picture of kind `bars`.
struct PlanFigure {
  std::string plan;             ///< Its key.
  std::optional<double> value;  ///< Nothing where the plan does not fit.
  std::string text;
};
[[nodiscard]] std::vector<PlanFigure> figures_shown(const LessonPicture& picture,
                                                    const std::vector<LessonAnswer>& answers);

/// The blocks that draw `picture` of those answers that it names. Plans that do not fit are left out of pictures of
/// time.
[[nodiscard]] DocumentBlock draw_picture(const LessonPicture& picture, const std::vector<LessonAnswer>& answers);

}  // namespace rehearse
