#include "core/import/job/shell/changes.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "core/import/job/shell/pattern.hpp"

namespace rehearse::job {

Traced without_fitting(const Traced& value, const std::string& pattern, char sign, bool longest) {
  if (sign == '#') {
    const std::size_t n = fitting_prefix(value.text, pattern, longest);
    return n == std::string::npos ? value : value.part(n);
  }
  const std::size_t at = fitting_suffix(value.text, pattern, longest);
  return at == std::string::npos ? value : value.part(0, at);
}

Traced with_replaced(const Traced& value, const std::string& pattern, const Traced& by, bool everywhere) {
  if (pattern.empty()) return value;
  Traced out;
  for (std::size_t k = 0; k < value.text.size();) {
    const std::size_t n = fitting_prefix(std::string_view(value.text).substr(k), pattern, true);
    if (n == std::string::npos || n == 0) {
      out.add(value.text[k], value.places[k]), ++k;
      continue;
    }
    out.add(by);
    k += n;
    if (!everywhere) {
      out.add(value.part(k));
      break;
    }
  }
  return out;
}

Traced in_case(Traced value, char sign, bool all) {
  if (has_unknown(value.text)) return value;
  for (std::size_t k = 0; k < value.text.size() && (all || k == 0); ++k) {
    const auto c = static_cast<unsigned char>(value.text[k]);
    value.text[k] = static_cast<char>(sign == '^' ? std::toupper(c) : std::tolower(c));
  }
  return value;
}

std::vector<Traced> brace_alternatives(const Traced& raw) {
  const std::size_t open = raw.text.find('{');
  if (open == std::string::npos || (open > 0 && raw.text[open - 1] == '$') || raw.text.find_first_of("\"'`$") < open)
    return {raw};
  const std::size_t close = raw.text.find('}', open);
  if (close == std::string::npos) return {raw};
  const std::string inside = raw.text.substr(open + 1, close - open - 1);
  std::vector<std::string> parts;
  const std::size_t dots = inside.find("..");
  const auto number = [](const std::string& s) {
    return !s.empty() && s.size() < 6 &&
           std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  };
  if (dots != std::string::npos && number(inside.substr(0, dots)) && number(inside.substr(dots + 2))) {
    for (int k = std::stoi(inside.substr(0, dots)); k <= std::stoi(inside.substr(dots + 2)); ++k)
      parts.push_back(std::to_string(k));
  } else if (inside.find(',') != std::string::npos && inside.find_first_of("\"'`${ ") == std::string::npos) {
    for (std::size_t b = 0; b <= inside.size();) {
      const std::size_t comma = std::min(inside.find(',', b), inside.size());
      parts.push_back(inside.substr(b, comma - b));
      b = comma + 1;
    }
  } else {
    return {raw};
  }
  std::vector<Traced> out;
  for (const std::string& p : parts) {
    Traced one = raw.part(0, open);
    one.add(Traced(p, raw.places[open]));
    one.add(raw.part(close + 1));
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace rehearse::job
