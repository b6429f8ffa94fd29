#pragma once
// Whole numbers as a shell counts with them: $(( ... )).

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace rehearse::job {

struct Counted {
  std::int64_t value = 0;
  std::string unknown;  ///< What is missing for a value; empty: it is known.
};

/// Variables as arithmetic sees them: texts, which are expressions of their own.
struct CountedNames {
  std::function<std::string(const std::string& name)> get;
  std::function<void(const std::string& name, std::int64_t value)> set;
};

/// The value of `text`, in which $-expansions have been made. A division by zero is unknown: what it divides by is
/// mostly something that nothing has set. Throws Error (usage), `where` as given, for what is no expression.
[[nodiscard]] Counted count(std::string_view text, const CountedNames& names, const std::string& where);

}  // namespace rehearse::job
