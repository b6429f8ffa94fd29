#include "core/import/job/shell/arithmetic.hpp"

#include <array>
#include <cctype>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/job/shell/traced.hpp"

namespace rehearse::job {

namespace {

constexpr int kDeepestVariable = 50;

class Reader {
 public:
  Reader(std::string_view text, const CountedNames& names, const std::string& where, int depth)
      : text_(text), names_(names), where_(where), depth_(depth) {
    if (depth > kDeepestVariable) fail("variables refer to one another in a ring");
  }

  Counted all() {
    skip();
    if (i_ >= text_.size()) return {};
    Counted out = comma();
    if (i_ < text_.size()) fail(fmt::format("'{}' is left over", text_.substr(i_)));
    return out;
  }

 private:
  using Pair = std::pair<std::string_view, int>;

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::usage, fmt::format("no sum of whole numbers: '{}': {}", readable(text_), what), where_);
  }
  void skip() {
    while (i_ < text_.size() && (std::isspace(static_cast<unsigned char>(text_[i_])) != 0 || text_[i_] == '"')) ++i_;
  }
  bool take(std::string_view sign) {
    skip();
    if (text_.substr(i_, sign.size()) != sign) return false;
    i_ += sign.size();
    skip();
    return true;
  }

  Counted comma() {
    Counted out = choice();
    while (take(",")) out = choice();
    return out;
  }

  Counted choice() {
    Counted asked = binary(0);
    if (!take("?")) return asked;
    Counted yes = choice();
    if (!take(":")) fail("'?' without ':'");
    Counted no = choice();
    if (!asked.unknown.empty()) return asked;
    return asked.value != 0 ? yes : no;
  }

  /// The sign of this level that stands here, or an empty one.
  std::string_view sign_of(int level) {
    static const std::array<std::vector<std::string_view>, 10> kLevels{{{"||"},
                                                                        {"&&"},
                                                                        {"|"},
                                                                        {"^"},
                                                                        {"&"},
                                                                        {"==", "!="},
                                                                        {"<=", ">=", "<", ">"},
                                                                        {"<<", ">>"},
                                                                        {"+", "-"},
                                                                        {"**", "*", "/", "%"}}};
    skip();
    const std::string_view rest = text_.substr(i_);
    for (const std::string_view s : kLevels[static_cast<std::size_t>(level)]) {
      if (!rest.starts_with(s)) continue;
      const char after = rest.size() > s.size() ? rest[s.size()] : '\0';
      const bool longer = (s == "|" && after == '|') || (s == "&" && after == '&') || (s == "<" && after == '<') ||
                          (s == ">" && after == '>') ||
                          (after == '=' && s != "==" && s != "!=" && s != "<=" && s != ">=");
      if (!longer) return s;
    }
    return {};
  }

  Counted binary(int level) {
    constexpr int kUnary = 10;
    if (level == kUnary) return unary();
    Counted left = binary(level + 1);
    for (std::string_view s = sign_of(level); !s.empty(); s = sign_of(level)) {
      i_ += s.size();
      left = joined(left, s, binary(level + 1));
    }
    return left;
  }

  static Counted joined(const Counted& a, std::string_view s, const Counted& b) {
    if (!a.unknown.empty()) return a;
    if (!b.unknown.empty()) return b;
    const std::int64_t x = a.value, y = b.value;
    const auto u = [](std::int64_t v) { return static_cast<std::uint64_t>(v); };
    const auto of = [](std::uint64_t v) { return Counted{static_cast<std::int64_t>(v), {}}; };
    if ((s == "/" || s == "%") && (y == 0 || (y == -1 && x == INT64_MIN))) return {0, "a division by zero"};
    if (s == "||") return {x != 0 || y != 0, {}};
    if (s == "&&") return {x != 0 && y != 0, {}};
    if (s == "|") return {x | y, {}};
    if (s == "^") return {x ^ y, {}};
    if (s == "&") return {x & y, {}};
    if (s == "==") return {x == y, {}};
    if (s == "!=") return {x != y, {}};
    if (s == "<=") return {x <= y, {}};
    if (s == ">=") return {x >= y, {}};
    if (s == "<") return {x < y, {}};
    if (s == ">") return {x > y, {}};
    if (s == "<<") return of(u(x) << (u(y) & 63U));
    if (s == ">>") return {x >> (y & 63), {}};
    if (s == "+") return of(u(x) + u(y));
    if (s == "-") return of(u(x) - u(y));
    if (s == "*") return of(u(x) * u(y));
    if (s == "/") return {x / y, {}};
    if (s == "%") return {x % y, {}};
    std::uint64_t power = 1;
    for (std::int64_t k = 0; k < y && k < 64; ++k) power *= u(x);
    return of(power);
  }

  Counted unary() {
    if (take("!")) {
      Counted v = unary();
      return {v.value == 0, v.unknown};
    }
    if (take("++") || take("--")) return unary();
    if (take("-")) {
      Counted v = unary();
      return {-v.value, v.unknown};
    }
    if (take("+")) return unary();
    if (take("(")) {
      Counted v = comma();
      if (!take(")")) fail("'(' without ')'");
      return v;
    }
    return atom();
  }

  Counted atom() {
    skip();
    if (i_ < text_.size() && text_[i_] == kUnknownBegin) {
      const std::string name = first_unknown(text_.substr(i_));
      i_ = std::min(text_.find(kUnknownEnd, i_), text_.size() - 1) + 1;
      // "8${NNODES}" and the like are no numbers either.
      while (i_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[i_])) != 0) ++i_;
      skip();
      return {0, name};
    }
    const std::size_t begin = i_;
    while (i_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[i_])) != 0 || text_[i_] == '_' || text_[i_] == '#'))
      ++i_;
    const std::string word(text_.substr(begin, i_ - begin));
    if (word.empty())
      fail(i_ < text_.size() ? fmt::format("a number was expected at '{}'", text_.substr(i_)) : "it ends early");
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0) return number(word);
    return name(word);
  }

  Counted number(const std::string& word) {
    if (i_ < text_.size() && text_[i_] == '.') fail("shells count whole numbers only");
    skip();
    if (i_ < text_.size() && text_[i_] == kUnknownBegin) return atom();
    const std::size_t base = word.find('#');
    try {
      std::size_t used = 0;
      const bool hex = word.starts_with("0x") || word.starts_with("0X");
      const bool octal = !hex && word.size() > 1 && word[0] == '0';
      const std::string digits = base == std::string::npos ? word : word.substr(base + 1);
      const int radix = base != std::string::npos ? std::stoi(word.substr(0, base)) : hex ? 16 : octal ? 8 : 10;
      const std::int64_t value = std::stoll(digits, &used, radix);
      if (used == digits.size()) return {value, {}};
    } catch (const std::exception&) {}
    fail(fmt::format("'{}' is no number", word));
  }

  Counted name(const std::string& word) {
    std::string whole = word;
    if (i_ < text_.size() && text_[i_] == '[') {
      const std::size_t close = std::min(text_.find(']', i_), text_.size() - 1);
      whole += text_.substr(i_, close + 1 - i_);
      i_ = close + 1;
    }
    skip();
    if (take("++") || take("--")) {
      Counted v = value_of(whole);
      if (v.unknown.empty())
        names_.set(whole, v.value + (text_.substr(0, i_).find("++") != std::string_view::npos ? 1 : -1));
      return v;
    }
    for (const std::string_view s : {"+=", "-=", "*=", "/=", "%="})
      if (take(s)) return assigned(whole, joined(value_of(whole), s.substr(0, 1), choice()));
    if (text_.substr(i_, 1) == "=" && text_.substr(i_, 2) != "==") {
      ++i_;
      return assigned(whole, choice());
    }
    return value_of(whole);
  }

  Counted assigned(const std::string& name, Counted v) {
    if (v.unknown.empty()) names_.set(name, v.value);
    return v;
  }

  Counted value_of(const std::string& name) {
    const std::string text = names_.get(name);
    if (text.empty()) return {};
    return Reader(text, names_, where_, depth_ + 1).all();
  }

  std::string_view text_;
  const CountedNames& names_;
  const std::string& where_;
  int depth_;
  std::size_t i_ = 0;
};

}  // namespace

Counted count(std::string_view text, const CountedNames& names, const std::string& where) {
  return Reader(text, names, where, 0).all();
}

}  // namespace rehearse::job
