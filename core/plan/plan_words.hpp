#pragma once
// Units and words in which a plan speaks.

#include <string>

#include "core/base/units.hpp"

namespace rehearse {

[[nodiscard]] constexpr double in_hours(Seconds s) { return s.value() / 3600; }
[[nodiscard]] constexpr double in_days(Seconds s) { return s.value() / 86400; }
[[nodiscard]] constexpr double in_kwh(Joules j) { return j.value() / 3.6e6; }
[[nodiscard]] constexpr double in_mwh(Joules j) { return j.value() / 3.6e9; }

/// "$3.95k": three digits.
[[nodiscard]] inline std::string money(Dollars d) { return to_string(d, 3); }

}  // namespace rehearse
