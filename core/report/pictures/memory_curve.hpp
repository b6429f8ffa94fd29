#pragma once
// Device memory over a step, as pictures and as numbers.

#include <string>
#include <vector>

#include "core/price/memory_rule.hpp"
#include "core/program/program.hpp"
#include "core/report/formats/document.hpp"

namespace rehearse {

/// A picture per kind of rank, time running to the right in the order in which the host issues work, one column for
/// several calls where the step is long: the column shows their most. `records` and `json` have every call: what it is,
/// the most during it, and what is held after it by category.
[[nodiscard]] Document memory_curve_document(const Program& program, const MemoryRule& rule, const std::string& title);

}  // namespace rehearse
