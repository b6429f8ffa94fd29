#include "core/lesson/formula.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/portable.hpp"

namespace rehearse {

/// Recursive descent that writes reverse Polish.
class FormulaParser {
 public:
  using Code = Formula::Code;

  FormulaParser(std::string_view text, const std::string& where) : text_(text), where_(where) { out_.text_ = text; }

  Formula run() {
    compare();
    skip();
    if (at_ != text_.size()) fail("an operator or the end");
    return std::move(out_);
  }

 private:
  static constexpr int kDeepest = 100;

  void compare() {
    if (++depth_ > kDeepest) fail("fewer brackets");
    sum();
    for (const auto& [sign, code] :
         {std::pair{"<=", Code::at_most}, {">=", Code::at_least}, {"<", Code::less}, {">", Code::more}})
      if (take(sign)) {
        sum();
        emit(code);
        break;
      }
    --depth_;
  }

  void sum() {
    product();
    for (;;) {
      if (take("+")) {
        product();
        emit(Code::add);
      } else if (take("-")) {
        product();
        emit(Code::subtract);
      } else
        return;
    }
  }

  void product() {
    factor();
    for (;;) {
      if (take("*")) {
        factor();
        emit(Code::multiply);
      } else if (take("/")) {
        factor();
        emit(Code::divide);
      } else
        return;
    }
  }

  void factor() {
    if (++depth_ > kDeepest) fail("fewer signs");
    if (take("-")) {
      factor();
      emit(Code::negate);
    } else if (take("(")) {
      compare();
      need(")");
    } else {
      skip();
      const char c = at_ < text_.size() ? text_[at_] : '\0';
      if (std::isdigit(static_cast<unsigned char>(c)) != 0)
        number();
      else if (std::isalpha(static_cast<unsigned char>(c)) != 0)
        word();
      else
        fail("a number, a name or '('");
    }
    --depth_;
  }

  void number() {
    double value = 0;
    const auto [end, failed] = number_from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (failed != std::errc{}) fail("a number");
    at_ = static_cast<std::size_t>(end - text_.data());
    out_.steps_.push_back({Code::number, value});
  }

  void word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_' || text_[at_] == '.'))
      ++at_;
    const std::string name(text_.substr(begin, at_ - begin));
    if (take("(")) return call(name, begin);
    const auto known = std::find(out_.names_.begin(), out_.names_.end(), name);
    const auto index = static_cast<std::size_t>(known - out_.names_.begin());
    if (known == out_.names_.end()) out_.names_.push_back(name);
    out_.steps_.push_back({Code::name, 0, index});
  }

  void call(const std::string& name, std::size_t begin) {
    std::size_t arguments = 0;
    do {
      compare();
      ++arguments;
    } while (take(","));
    need(")");
    for (const auto& [known, code] :
         {std::pair{"min", Code::minimum}, {"max", Code::maximum}, {"abs", Code::absolute}, {"round", Code::rounded}})
      if (name == known) {
        if (arguments > 1 && (code == Code::absolute || code == Code::rounded)) fail("one argument");
        out_.steps_.push_back({code, 0, 0, arguments});
        return;
      }
    at_ = begin;
    fail("min, max, abs or round");
  }

  void emit(Code code) { out_.steps_.push_back({code}); }

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view sign) {
    skip();
    if (text_.substr(at_, sign.size()) != sign) return false;
    at_ += sign.size();
    return true;
  }
  void need(std::string_view sign) {
    if (!take(sign)) fail(fmt::format("'{}'", sign));
  }
  [[noreturn]] void fail(const std::string& wanted) const {
    throw Error(ErrorKind::usage,
                fmt::format("'{}' is not a formula: {} expected at '{}'", text_, wanted,
                            at_ < text_.size() ? text_.substr(at_) : "its end"),
                where_, "example: 1 - a.step_time / b.step_time");
  }

  std::string_view text_;
  const std::string& where_;
  Formula out_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

Formula Formula::parse(std::string_view text, const std::string& where) { return FormulaParser(text, where).run(); }

std::optional<double> Formula::value(const FigureLookup& lookup) const {
  std::vector<double> known;
  for (const std::string& name : names_) {
    const std::optional<double> v = lookup(name);
    if (!v) return std::nullopt;
    known.push_back(*v);
  }
  std::vector<double> stack;
  const auto pop = [&stack] {
    const double v = stack.back();
    stack.pop_back();
    return v;
  };
  for (const Step& s : steps_) {
    if (s.code == Code::number) {
      stack.push_back(s.number);
      continue;
    }
    if (s.code == Code::name) {
      stack.push_back(known[s.name]);
      continue;
    }
    const double b = pop();
    switch (s.code) {
      case Code::negate: stack.push_back(-b); break;
      case Code::absolute: stack.push_back(std::abs(b)); break;
      case Code::rounded: stack.push_back(std::round(b)); break;
      case Code::minimum:
      case Code::maximum: {
        double out = b;
        for (std::size_t i = 1; i < s.arguments; ++i)
          out = s.code == Code::minimum ? std::min(out, pop()) : std::max(out, pop());
        stack.push_back(out);
        break;
      }
      case Code::add: stack.back() += b; break;
      case Code::subtract: stack.back() -= b; break;
      case Code::multiply: stack.back() *= b; break;
      case Code::divide: stack.back() /= b; break;
      case Code::less: stack.back() = stack.back() < b ? 1 : 0; break;
      case Code::at_most: stack.back() = stack.back() <= b ? 1 : 0; break;
      case Code::more: stack.back() = stack.back() > b ? 1 : 0; break;
      case Code::at_least: stack.back() = stack.back() >= b ? 1 : 0; break;
      case Code::number:
      case Code::name: break;
    }
  }
  if (!std::isfinite(stack.back())) return std::nullopt;
  return stack.back();
}

}  // namespace rehearse
