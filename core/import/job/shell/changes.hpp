#pragma once
// What a shell makes of a text without asking for anything else: patterns cut off and replaced, cases, alternatives in
// braces. expand.cpp asks for them.

#include <string>
#include <vector>

#include "core/import/job/shell/traced.hpp"

namespace rehearse::job {

/// `value` without the beginning (`sign` '#') or the ending ('%') that fits the pattern; as it is where none does.
[[nodiscard]] Traced without_fitting(const Traced& value, const std::string& pattern, char sign, bool longest);

/// `value` with `by` for its first part that fits the pattern, or for every one.
[[nodiscard]] Traced with_replaced(const Traced& value, const std::string& pattern, const Traced& by, bool everywhere);

/// In capitals (`sign` '^') or small letters (','), all or the first. A text with marks stays as it is.
[[nodiscard]] Traced in_case(Traced value, char sign, bool all);

/// {a,b} and {1..4}, outside quotes, as words of their own.
[[nodiscard]] std::vector<Traced> brace_alternatives(const Traced& raw);

}  // namespace rehearse::job
