#pragma once
// What not every compiler's library has: the one place that knows which lacks what. That of emscripten 3.1, with which
// the core is compiled to WebAssembly, reads no floating-point number from characters, starts no threads, and searches
// whole strings only.

#include <charconv>
#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>

#include <regex.h>

namespace rehearse {

/// std::from_chars for a double, with the same syntax ("-1.5", "2e9", "inf"; no leading space or '+', no hexadecimal),
/// results and errors. `format` is general or fixed: with fixed, an exponent is not part of the number.
std::from_chars_result number_from_chars(const char* first, const char* last, double& value,
                                         std::chars_format format = std::chars_format::general);
/// The same where the library lacks it: the number's end by its grammar, its value by strtod.
std::from_chars_result number_by_grammar(const char* first, const char* last, double& value,
                                         std::chars_format format = std::chars_format::general);
template <std::integral Whole>
std::from_chars_result number_from_chars(const char* first, const char* last, Whole& value) {
  return std::from_chars(first, last, value);
}

/// regexec() on `text` from `from` on, without a copy where the library can (REG_STARTEND): offsets in `at` count from
/// the text's begin. The text need not end in a zero.
[[nodiscard]] bool matches_from(const regex_t& regex, std::string_view text, std::size_t from,
                                std::span<regmatch_t> at);

/// Threads that can run at the same time, at least 1: 1 in a program that was compiled without threads.
[[nodiscard]] int usable_threads();

}  // namespace rehearse
