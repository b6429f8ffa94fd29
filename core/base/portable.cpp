#include "core/base/portable.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "core/base/characters.hpp"

namespace rehearse {

#ifdef __cpp_lib_to_chars

std::from_chars_result number_from_chars(const char* first, const char* last, double& value, std::chars_format format) {
  return std::from_chars(first, last, value, format);
}

#else

std::from_chars_result number_from_chars(const char* first, const char* last, double& value, std::chars_format format) {
  return number_by_grammar(first, last, value, format);
}

#endif

namespace {

const char* after_digits(const char* at, const char* last) {
  return std::find_if_not(at, last, [](char c) { return is_digit(c); });
}

/// The end of "1", "1.5", ".5" or "1.", and of what follows as an exponent; `at` where no number begins.
const char* end_of_decimal(const char* at, const char* last, bool with_exponent) {
  const char* whole = after_digits(at, last);
  const char* end = whole;
  if (end != last && *end == '.') end = after_digits(end + 1, last);
  if (end - at <= (end != whole ? 1 : 0)) return at;  // No digit, or a point alone.
  if (!with_exponent || end == last || (*end != 'e' && *end != 'E')) return end;
  const char* digits = end + 1;
  if (digits != last && (*digits == '+' || *digits == '-')) ++digits;
  const char* exponent = after_digits(digits, last);
  return exponent == digits ? end : exponent;
}

const char* end_of_word(const char* at, const char* last) {
  for (const std::string_view word : {"infinity", "inf", "nan"})
    if (static_cast<std::size_t>(last - at) >= word.size() &&
        std::equal(word.begin(), word.end(), at, [](char lower, char c) { return lower == (c | 0x20); }))
      return at + word.size();
  return at;
}

}  // namespace

std::from_chars_result number_by_grammar(const char* first, const char* last, double& value, std::chars_format format) {
  const char* begin = first != last && *first == '-' ? first + 1 : first;
  const char* end = end_of_decimal(begin, last, format != std::chars_format::fixed);
  if (end == begin) end = end_of_word(begin, last);
  if (end == begin) return {first, std::errc::invalid_argument};
  const std::string text(first, end);
  const double read = std::strtod(text.c_str(), nullptr);  // Nothing here sets a locale: the point is a point.
  const bool huge = std::isinf(read) && is_digit(end[-1]);
  const bool tiny = read == 0 && std::any_of(begin, std::find_if(begin, end, [](char c) { return (c | 0x20) == 'e'; }),
                                             [](char c) { return c >= '1' && c <= '9'; });
  if (huge || tiny) return {end, std::errc::result_out_of_range};
  value = read;
  return {end, std::errc{}};
}

bool matches_from(const regex_t& regex, std::string_view text, std::size_t from, std::span<regmatch_t> at) {
  const int flags = from > 0 ? REG_NOTBOL : 0;
#ifdef REG_STARTEND
  at.front().rm_so = static_cast<regoff_t>(from);
  at.front().rm_eo = static_cast<regoff_t>(text.size());
  return regexec(&regex, text.empty() ? "" : text.data(), at.size(), at.data(), flags | REG_STARTEND) == 0;
#else
  const std::string rest(text.substr(from));
  if (regexec(&regex, rest.c_str(), at.size(), at.data(), flags) != 0) return false;
  for (regmatch_t& part : at)
    if (part.rm_so >= 0) part.rm_so += static_cast<regoff_t>(from), part.rm_eo += static_cast<regoff_t>(from);
  return true;
#endif
}

int usable_threads() {
#if defined(__EMSCRIPTEN__) && !defined(__EMSCRIPTEN_PTHREADS__)
  return 1;
#else
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
#endif
}

}  // namespace rehearse
