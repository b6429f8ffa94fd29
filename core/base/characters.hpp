#pragma once
// Classes of characters, for a char of any value.

#include <cctype>

namespace rehearse {

[[nodiscard]] inline bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
[[nodiscard]] inline bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

}  // namespace rehearse
