#include "tests/golden/numbers.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace golden {
namespace {

constexpr std::size_t kFewestInPicture = 20;

enum class Kind { text, number, bar, picture };

struct Token {
  Kind kind = Kind::text;
  std::string text;
  std::size_t line = 0;     ///< From 0.
  double value = 0;         ///< Of a number, or the length of a bar.
  double last_decimal = 0;  ///< One unit of it; 0 for a whole number.
};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Reads the words of lines into tokens.
class Reader {
 public:
  explicit Reader(const Lines& lines) {
    for (; line_ < lines.size(); ++line_) read_line(lines[line_]);
  }
  std::vector<Token> take() { return std::move(tokens_); }

 private:
  void read_line(std::string_view line) {
    const auto first = line.find('|'), last = line.rfind('|');
    const bool picture = first != std::string_view::npos && last - first > kFewestInPicture &&
                         std::count(line.begin(), line.end(), '|') == 2;
    if (!picture) return read_words(line);
    read_words(line.substr(0, first));
    add(Kind::picture, line.substr(first + 1, last - first - 1));
    read_words(line.substr(last + 1));
  }

  void read_words(std::string_view text) {
    std::size_t at = 0;
    while ((at = text.find_first_not_of(' ', at)) != std::string_view::npos) {
      const auto end = std::min(text.find(' ', at), text.size());
      read_word(text.substr(at, end - at));
      at = end;
    }
  }

  void read_word(std::string_view word) {
    if (word.find_first_not_of('#') == std::string_view::npos) {
      add(Kind::bar, word).value = static_cast<double>(word.size());
      return;
    }
    for (std::size_t at = 0; at < word.size();) {
      std::size_t length = number_length(word, at);
      if (length > 0) {
        add_number(word.substr(at, length));
      } else {
        length = text_length(word, at);
        add(Kind::text, word.substr(at, length));
      }
      at += length;
    }
  }

  /// Of the number that begins at `at`; 0 where none does. A sign belongs to it at the beginning of a word only:
  /// "7.9-8.8" is two numbers.
  static std::size_t number_length(std::string_view word, std::size_t at) {
    auto end = at;
    if (at == 0 && (word[at] == '-' || word[at] == '+')) ++end;
    const auto digits = end;
    while (end < word.size() && is_digit(word[end])) ++end;
    if (end == digits) return 0;
    while (is_thousands(word, end)) end += 4;
    if (end + 1 < word.size() && word[end] == '.' && is_digit(word[end + 1]))
      for (++end; end < word.size() && is_digit(word[end]);) ++end;
    return end + exponent_length(word, end) - at;
  }

  /// Whether ",ddd" stands at `at` and no further digit.
  static bool is_thousands(std::string_view word, std::size_t at) {
    if (at + 3 >= word.size() || word[at] != ',') return false;
    return is_digit(word[at + 1]) && is_digit(word[at + 2]) && is_digit(word[at + 3]) &&
           (at + 4 == word.size() || !is_digit(word[at + 4]));
  }

  static std::size_t exponent_length(std::string_view word, std::size_t at) {
    auto end = at;
    if (end >= word.size() || (word[end] != 'e' && word[end] != 'E')) return 0;
    ++end;
    if (end < word.size() && (word[end] == '-' || word[end] == '+')) ++end;
    const auto digits = end;
    while (end < word.size() && is_digit(word[end])) ++end;
    return end > digits && (end == word.size() || !is_letter(word[end])) ? end - at : 0;
  }

  /// Of the text that begins at `at`: a name runs on over its digits, dots and slashes, anything else is one character.
  static std::size_t text_length(std::string_view word, std::size_t at) {
    auto end = at + 1;
    if (is_letter(word[at]))
      while (end < word.size() && (is_letter(word[end]) || is_digit(word[end]) ||
                                   ((word[end] == '.' || word[end] == '/') && end + 1 < word.size())))
        ++end;
    return end - at;
  }

  Token& add(Kind kind, std::string_view text) {
    tokens_.push_back({kind, std::string(text), line_});
    return tokens_.back();
  }

  void add_number(std::string_view text) {
    std::string plain(text);
    plain.erase(std::remove(plain.begin(), plain.end(), ','), plain.end());
    if (plain.front() == '+') plain.erase(0, 1);
    auto& token = add(Kind::number, text);
    std::from_chars(plain.data(), plain.data() + plain.size(), token.value);
    const auto dot = plain.find('.');
    if (dot == std::string::npos) return;
    const auto exponent = std::min(plain.find_first_of("eE"), plain.size());
    double power = 0;
    if (exponent < plain.size()) power = std::stod(plain.substr(exponent + 1));
    token.last_decimal = std::pow(10.0, power - static_cast<double>(exponent - dot - 1));
  }

  std::vector<Token> tokens_;
  std::size_t line_ = 0;
};

bool within(const Token& a, const Token& b, double tolerance) {
  const double rounding = a.kind == Kind::bar ? 1 : std::max(a.last_decimal, b.last_decimal);
  const double allowed = tolerance * std::max(std::abs(a.value), std::abs(b.value)) + rounding;
  return std::abs(a.value - b.value) <= allowed * (1 + 1e-9);
}

/// How many characters of `a` do not stand in `b` within `reach` of their places.
std::size_t not_nearby(const std::string& a, const std::string& b, std::size_t reach) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto first = i > reach ? i - reach : 0;
    if (std::string_view(b).substr(first, i + reach + 1 - first).find(a[i]) == std::string_view::npos) ++count;
  }
  return count;
}

bool pictures_alike(const Token& a, const Token& b, double tolerance) {
  if (a.text.size() != b.text.size()) return false;
  const auto reach = static_cast<std::size_t>(std::ceil(tolerance * static_cast<double>(a.text.size())));
  return not_nearby(a.text, b.text, reach) <= reach && not_nearby(b.text, a.text, reach) <= reach;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", 100 * share);
  return text;
}

/// "line 7: 20.52 became 22.10, 7.15 % apart (3 % allowed): step time     22.10 s"
std::string outside_line(const Token& a, const Token& b, double tolerance, const Lines& obtained) {
  const auto at = "line " + std::to_string(b.line + 1) + ": ";
  const auto allowed = " (" + percent(tolerance) + " allowed): " + obtained[b.line];
  if (a.kind == Kind::picture) return at + "the picture moved by more than its share of the row" + allowed;
  const double larger = std::max(std::abs(a.value), std::abs(b.value));
  const auto apart = percent(std::abs(a.value - b.value) / larger) + " apart";
  if (a.kind == Kind::bar)
    return at + "a bar of " + std::to_string(a.text.size()) + " became one of " + std::to_string(b.text.size()) + ", " +
           apart + allowed;
  return at + a.text + " became " + b.text + ", " + apart + allowed;
}

}  // namespace

NumberComparison compare_numbers(const Lines& expected, const Lines& obtained, double tolerance) {
  const auto a = Reader(expected).take(), b = Reader(obtained).take();
  NumberComparison out;
  out.same_text = a.size() == b.size();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].kind != b[i].kind || (a[i].kind == Kind::text && a[i].text != b[i].text)) {
      out.same_text = false;
      break;
    }
    const bool alike = a[i].kind == Kind::text      ? true
                       : a[i].kind == Kind::picture ? pictures_alike(a[i], b[i], tolerance)
                                                    : within(a[i], b[i], tolerance);
    if (!alike) out.outside.push_back(outside_line(a[i], b[i], tolerance, obtained));
  }
  return out;
}

}  // namespace golden
