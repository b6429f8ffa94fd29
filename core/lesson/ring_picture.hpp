#pragma once
// A ring all-reduce step by step. Private to this folder.

#include <string>

#include "core/report/formats/document.hpp"

namespace rehearse {

/// A line for each rank, a column for each step, in each the piece that the rank sends: small letters for sums that are
/// not complete, capitals for those that are. As many of both as the page and the alphabet hold.
[[nodiscard]] std::string draw_ring(int ranks, const TextStyle& style);

}  // namespace rehearse
