#pragma once
// The words that reports use for enumerators, and their forms of numbers, in one place, so that tables, pictures and
// sentences agree.

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/trace/trace.hpp"

namespace rehearse {

/// "matrix products", "bubble (waiting for others)".
[[nodiscard]] std::string_view words_of(TimeCategory c);

/// Shares of `parts` in percent with one decimal, rounded so that the printed numbers add up to 100.0 (largest
/// remainder). All zero when the sum is.
[[nodiscard]] std::vector<std::string> percentages(const std::vector<double>& parts);

/// "1,024".
[[nodiscard]] std::string with_commas(double whole);

/// "74.51": GiB, without the unit.
[[nodiscard]] std::string gib(Bytes b);
/// "12.345": ms, without the unit.
[[nodiscard]] std::string milliseconds(Seconds t);
/// "+1.2 ms", "-3.4 us", with at most `digits` significant digits.
[[nodiscard]] std::string signed_time(Seconds t, int digits = 4);
/// "41.9" of a share of 0.419, and "+41.9": percent, without the sign for it.
[[nodiscard]] std::string percent(double share);
[[nodiscard]] std::string signed_percent(double share);

/// {category: seconds}, every category, as `breakdown` stands in JSON results.
[[nodiscard]] nlohmann::ordered_json breakdown_json(const Breakdown& b);

}  // namespace rehearse
