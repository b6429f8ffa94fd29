// Conditions: test, [ ] and [[ ]].

#include <stdexcept>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/posix_regex.hpp"
#include "core/import/job/shell/pattern.hpp"
#include "core/import/job/shell/shell.hpp"

namespace rehearse::job {

/// Reads one condition from left to right. What hangs on something unknown is not met.
class Tester {
 public:
  Tester(Shell& shell, const std::vector<Traced>& words, bool brackets, const std::vector<Word>* raw, Place place)
      : shell_(shell), words_(words), raw_(raw), brackets_(brackets), place_(place) {}

  bool all() { return any(); }

 private:
  [[nodiscard]] bool here(std::string_view word) const { return i_ < words_.size() && words_[i_].text == word; }
  bool take(std::string_view word) {
    if (!here(word)) return false;
    ++i_;
    return true;
  }

  bool any() {
    bool out = both();
    while (take("||") || (!brackets_ && take("-o"))) out = both() || out;
    return out;
  }
  bool both() {
    bool out = one();
    while (take("&&") || (!brackets_ && take("-a"))) out = one() && out;
    return out;
  }
  bool one() {
    if (here("!") && i_ + 1 < words_.size()) {
      ++i_;
      return !one();
    }
    if (here("(") && brackets_) {
      ++i_;
      const bool out = any();
      (void)take(")");
      return out;
    }
    if (i_ >= words_.size()) return false;
    return comparison();
  }

  bool comparison() {
    const Traced left = words_[i_];
    const std::string known = without_unknown(left.text);
    const bool two_left = i_ + 1 < words_.size();
    if (two_left && i_ + 2 < words_.size() + 1 && is_sign(words_[i_ + 1].text)) {
      const std::string sign = words_[i_ + 1].text;
      const std::size_t at = i_ + 2;
      i_ = std::min(i_ + 3, words_.size());
      return at < words_.size() ? compared(left, sign, at) : compared_with_nothing(left, sign);
    }
    if (known.size() == 2 && known[0] == '-' && std::isalpha(static_cast<unsigned char>(known[1])) != 0) {
      i_ += two_left ? 2 : 1;
      return asked(known[1], two_left ? words_[i_ - 1] : Traced());
    }
    ++i_;
    return !known.empty();
  }

  static bool is_sign(const std::string& word) {
    static const std::vector<std::string> kSigns{"=",   "==",  "!=",  "=~",  "<",   ">",
                                                 "-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
    return std::find(kSigns.begin(), kSigns.end(), word) != kSigns.end();
  }

  /// `[ $X = yes ]` where nothing sets X: a shell sees two words.
  bool compared_with_nothing(const Traced& left, const std::string& sign) {
    return (sign == "=" || sign == "==") && without_unknown(left.text).empty();
  }

  bool asked(char what, const Traced& operand) {
    const std::string known = without_unknown(operand.text);
    switch (what) {
      case 'z': return known.empty();
      case 'n': return !known.empty();
      case 'v':
        return known.find('[') == std::string::npos ? shell_.find(known) != nullptr
                                                    : !has_unknown(shell_.text_of(known));
      case 'e':
      case 'f':
      case 'r':
      case 's': return shell_.files_.find(operand.text, place_.file) >= 0;
      default: return false;
    }
  }

  bool compared(const Traced& left, const std::string& sign, std::size_t right_at) {
    const Traced& right = words_[right_at];
    if (sign.starts_with('-')) return counted(left, sign, right);
    const std::string a = without_unknown(left.text), b = without_unknown(right.text);
    if (sign == "<") return a < b;
    if (sign == ">") return a > b;
    if (sign == "=~") return matched(a, raw_ != nullptr ? shell_.expand_text((*raw_)[right_at].raw, false).text : b);
    // Between double brackets the right side is a pattern, where it is not quoted.
    const bool equal = brackets_ && raw_ != nullptr
                           ? fits_pattern(a, without_unknown(shell_.expand_pattern((*raw_)[right_at].raw).text))
                           : a == b;
    return equal == (sign != "!=");
  }

  bool counted(const Traced& left, const std::string& sign, const Traced& right) {
    std::string a, b;
    try {
      a = shell_.arithmetic(left).text, b = shell_.arithmetic(right).text;
    } catch (const Error&) {
      return undecided(left);
    }
    if (has_unknown(a)) return undecided(Traced(a, {}));
    if (has_unknown(b)) return undecided(Traced(b, {}));
    const long x = std::stol(a), y = std::stol(b);
    if (sign == "-eq") return x == y;
    if (sign == "-ne") return x != y;
    if (sign == "-lt") return x < y;
    if (sign == "-le") return x <= y;
    return sign == "-gt" ? x > y : x >= y;
  }

  bool undecided(const Traced& what) {
    const std::string name = first_unknown(what.text);
    shell_.note(fmt::format("a condition hangs on {}, which nothing here sets: taken as not met",
                            name.empty() ? "'" + what.text + "'" : name),
                place_);
    return false;
  }

  static bool matched(const std::string& text, const std::string& expression) {
    try {
      return text.size() < 10'000 && PosixRegex(expression).search(text).has_value();
    } catch (const std::invalid_argument&) {
      return false;
    }
  }

  Shell& shell_;
  const std::vector<Traced>& words_;
  const std::vector<Word>* raw_;
  bool brackets_;
  Place place_;
  std::size_t i_ = 0;
};

int Shell::test(const std::vector<Traced>& words, bool brackets, const std::vector<Word>* raw, Place place) {
  return Tester(*this, words, brackets, raw, place).all() ? 0 : 1;
}

}  // namespace rehearse::job
