#include "core/base/shell_word.hpp"

#include <algorithm>
#include <string_view>

#include "core/base/characters.hpp"

namespace rehearse {

std::string shell_word(const std::string& text) {
  const auto safe = [](char c) {
    return is_letter(c) || is_digit(c) || std::string_view("-_./=:,+@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), safe)) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace rehearse
