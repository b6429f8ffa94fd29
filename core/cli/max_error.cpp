#include "core/cli/max_error.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/portable.hpp"

namespace rehearse::cli {

Option max_error_option() {
  return {"--max-error", "SHARE", "exit with 1 where the step, or the median of the rows, is further off: 10%, or 0.1"};
}

std::optional<double> max_error(const Arguments& arguments) {
  if (!arguments.has("--max-error")) return std::nullopt;
  const std::string text = arguments.text("--max-error");
  const bool percent = text.ends_with('%');
  const std::string number = percent ? text.substr(0, text.size() - 1) : text;
  double value = 0;
  const auto [end, failed] = number_from_chars(number.data(), number.data() + number.size(), value);
  if (failed != std::errc{} || end != number.data() + number.size() || !(value >= 0))
    throw Error(ErrorKind::usage, fmt::format("'{}' is no share", text), "--max-error",
                "example: --max-error 5%, or 0.05");
  return percent ? value / 100 : value;
}

}  // namespace rehearse::cli
