#pragma once
// What to change on a shared cluster, as a document.

#include "core/fleet/advise.hpp"
#include "core/report/formats/document.hpp"

namespace rehearse {

/// One line for each change: the queue's 90th percentile of waiting, what it costs, and which other queue pays. JSON:
/// `queue`, `bound_s`, `wait_p90_s`, `changes[{what, set[], gpus, wait_p90_s, enough, pays, rise_s}]`.
[[nodiscard]] Document advice_document(const fleet::Fleet& fleet, const std::string& queue, Seconds bound,
                                       const fleet::AdviceAnswer& answer, const std::string& program_version);

}  // namespace rehearse
