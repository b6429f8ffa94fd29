#pragma once
// A plan's answer as JSON (rehearse/plan_result/v1). Inside core/report only.

#include <string>

#include "core/plan/rank.hpp"

namespace rehearse {

[[nodiscard]] std::string plan_json(const PlanAnswer& answer, const std::string& version);

}  // namespace rehearse
