#include "core/import/job/shell/pattern.hpp"

#include <string>

namespace rehearse::job {

namespace {

/// Whether `c` is in the brackets that begin at pattern[0]; `end` is set behind them, to 0 where they never close.
bool in_brackets(char c, std::string_view pattern, std::size_t& end) {
  std::size_t i = 1;
  const bool other = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (other) ++i;
  bool found = false;
  for (const std::size_t first = i; i < pattern.size(); ++i) {
    if (pattern[i] == ']' && i > first) {
      end = i + 1;
      return found != other;
    }
    if (pattern.substr(i, 9) == "[:digit:]") {
      found = found || (c >= '0' && c <= '9');
      i += 8;
    } else if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      found = found || (pattern[i] <= c && c <= pattern[i + 2]);
      i += 2;
    } else {
      found = found || pattern[i] == c;
    }
  }
  end = 0;
  return false;
}

}  // namespace

bool fits_pattern(std::string_view text, std::string_view pattern) {
  std::size_t t = 0, p = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    std::size_t end = 0;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == '[' && in_brackets(text[t], pattern.substr(p), end)) {
      ++t, p += end;
    } else if (p < pattern.size() && (pattern[p] != '[' || end == 0) &&
               (pattern[p] == '?' || pattern[p] == text[t] ||
                (pattern[p] == '\\' && p + 1 < pattern.size() && pattern[p + 1] == text[t]))) {
      p += pattern[p] == '\\' && text[t] != '\\' ? 2 : 1;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::size_t fitting_prefix(std::string_view text, std::string_view pattern, bool longest) {
  std::size_t found = std::string_view::npos;
  for (std::size_t n = 0; n <= text.size(); ++n)
    if (fits_pattern(text.substr(0, n), pattern)) {
      found = n;
      if (!longest) break;
    }
  return found;
}

std::size_t fitting_suffix(std::string_view text, std::string_view pattern, bool longest) {
  std::size_t found = std::string_view::npos;
  for (std::size_t at = text.size() + 1; at-- > 0;)
    if (fits_pattern(text.substr(at), pattern)) {
      found = at;
      if (!longest) break;
    }
  return found;
}

}  // namespace rehearse::job
