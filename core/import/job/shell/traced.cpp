#include "core/import/job/shell/traced.hpp"

#include <algorithm>

namespace rehearse::job {

void Traced::add(const Traced& more) {
  text += more.text;
  places.insert(places.end(), more.places.begin(), more.places.end());
}

Traced Traced::part(std::size_t begin, std::size_t count) const {
  Traced out;
  begin = std::min(begin, text.size());
  count = std::min(count, text.size() - begin);
  const auto from = places.begin() + static_cast<std::ptrdiff_t>(begin);
  out.text = text.substr(begin, count);
  out.places.assign(from, from + static_cast<std::ptrdiff_t>(count));
  return out;
}

std::string unknown_mark(std::string_view name) { return kUnknownBegin + std::string(name) + kUnknownEnd; }

bool has_unknown(std::string_view text) { return text.find(kUnknownBegin) != std::string_view::npos; }

std::string without_unknown(std::string_view text) {
  std::string out;
  int depth = 0;
  for (const char c : text) {
    depth += c == kUnknownBegin ? 1 : 0;
    if (depth == 0) out += c;
    if (c == kUnknownEnd && depth > 0) --depth;
  }
  return out;
}

std::string first_unknown(std::string_view text) {
  const std::size_t begin = text.find(kUnknownBegin);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin + 1, text.find(kUnknownEnd, begin) - begin - 1));
}

std::string readable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kUnknownBegin)
      out += text.substr(i + 1, 1) == "$" ? "" : "${";
    else if (text[i] == kUnknownEnd)
      out += out.ends_with(')') ? "" : "}";
    else
      out += text[i];
  }
  return out;
}

}  // namespace rehearse::job
