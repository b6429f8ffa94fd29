#pragma once
// Likely ranges judged by sources that they weren't fitted on, as tables and JSON.

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/report/formats/document.hpp"
#include "core/scoreboard/ranges/range_judgement.hpp"

namespace rehearse {

/// One table of means by kind of model and one of the sources; none for an empty judgement.
[[nodiscard]] std::vector<DocumentBlock> judgement_blocks(const RangeJudgement& judgement);

/// {groups[{name, sources, inside, width, score, constant_inside, constant_width, constant_score}], sources[{source,
/// model, first, and the same}]}.
[[nodiscard]] nlohmann::ordered_json judgement_json(const RangeJudgement& judgement);

}  // namespace rehearse
