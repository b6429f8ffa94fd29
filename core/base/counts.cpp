#include "core/base/counts.hpp"

#include <cmath>

#include <fmt/format.h>

#include "core/base/portable.hpp"

namespace rehearse {

std::string count_hint(std::string_view text) {
  double number = 0;
  const auto [end, failed] = number_from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || end + 1 != text.data() + text.size() || !(number > 0)) return {};
  const std::string_view digits = text.substr(0, text.size() - 1);
  switch (*end) {
    case 'k':
    case 'K': {
      const double thousands = 1000 * number, binary = 1024 * number;
      return std::floor(binary) == binary ? fmt::format("write {:.0f} or {:.15g}", binary, thousands)
                                          : fmt::format("write {:.15g}", thousands);
    }
    case 'm':
    case 'M': return fmt::format("write {}e6", digits);
    case 'b':
    case 'B':
    case 'g':
    case 'G': return fmt::format("write {}e9", digits);
    case 't':
    case 'T': return fmt::format("write {}e12", digits);
    default: return {};
  }
}

}  // namespace rehearse
