#pragma once
// Spans of executed tasks, named as simulated ones are, so that both are drawn and compared alike.

#include "core/trace/trace.hpp"
#include "gpu_backend/execute/device.hpp"
#include "gpu_backend/execute/plan.hpp"

namespace rehearse {

[[nodiscard]] Span span_of(const RankPlan& plan, const Instruction& task, const Interval& when);

}  // namespace rehearse
