#include "core/report/formats/format.hpp"

#include <algorithm>

namespace rehearse {

Registry<Format>& formats() {
  static Registry<Format> registry("format");
  return registry;
}

int columns_of(const std::string& text) {
  int columns = 0;
  bool escape = false;
  for (const char c : text) {
    if (c == '\033')
      escape = true;
    else if (escape)
      escape = c != 'm';
    else if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U)
      ++columns;
  }
  return columns;
}

std::string wrap(const std::string& text, int width, int indent) {
  std::string out;
  int used = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    const int columns = columns_of(word);
    if (used > 0 && used + 1 + columns > width) {
      out += '\n' + std::string(static_cast<std::size_t>(indent), ' ');
      used = 0;
    } else if (used > 0) {
      out += ' ';
      ++used;
    }
    out += word;
    used += columns;
  }
  return out;
}

}  // namespace rehearse
