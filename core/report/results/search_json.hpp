#pragma once
// The JSON of a search. Private to this module.

#include <string>
#include <vector>

#include "core/report/results/search_report.hpp"

namespace rehearse {

/// The best, then those of the front that are not among them.
[[nodiscard]] std::vector<const Found*> candidates(const SearchResult& result);
[[nodiscard]] bool on_front(const SearchResult& result, const Found& found);
/// A complete text, of a report as modelled.
[[nodiscard]] std::string search_json(const SearchReport& report);

}  // namespace rehearse
