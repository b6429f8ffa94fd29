#pragma once
// Likely ranges as answers say them: the same words and keys for every verb that predicts.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/base/units.hpp"
#include "core/scoreboard/prediction_range.hpp"

namespace rehearse {

/// "8.94 s to 12.1 s, for 8 of 10 such steps: by 90 rows of 4 sources, models with experts on hopper; no framework is
/// stated".
[[nodiscard]] std::string range_text(Seconds modelled, const PredictionRange& range);
/// "9.10 s as modelled; such steps took 15 % longer, which is applied"; empty for less than half a percent.
[[nodiscard]] std::string bias_text(Seconds modelled, const PredictionRange& range);
/// For the title of a picture, which is of the step as it was modelled: " as modelled, before the bias", or nothing.
[[nodiscard]] std::string modelled_words(const PredictionRange& range);
/// "9.5 s, 6.9 s to 13.1 s, without the 12 steps of your own".
[[nodiscard]] std::string before_text(Seconds modelled, const PredictionRange& range);
/// What the range rests on, alone: "90 rows of 4 sources, models with experts on hopper; no framework is stated".
[[nodiscard]] std::string rests_on(const PredictionRange& range);

/// Adds step_time_s_p10, step_time_s_p90, modelled_step_time_s, bias (less one), range_rows, range_sources,
/// range_rows_of, range_caution; with steps of the user's own also range_own_rows and, under range_before, the first
/// two and step_time_s without them.
void add_range_json(Seconds modelled, const PredictionRange& range, nlohmann::ordered_json& out);

}  // namespace rehearse
