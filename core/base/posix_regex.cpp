#include "core/base/posix_regex.hpp"

#include <regex.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/base/portable.hpp"

namespace rehearse {

namespace {

constexpr long kMostCopies = 1000;

/// How often the innermost part is written out where every bound stands inside the others.
long copies(const std::string& expression) {
  long out = 1;
  for (std::size_t at = expression.find('{'); at != std::string::npos && out <= kMostCopies;
       at = expression.find('{', at + 1)) {
    long bound = 0, most = 1;
    for (std::size_t i = at + 1; i < expression.size() && expression[i] != '}' && expression[i] != '\\'; ++i) {
      const bool digit = expression[i] >= '0' && expression[i] <= '9';
      bound = digit ? std::min(bound * 10 + (expression[i] - '0'), kMostCopies + 1) : 0;
      most = std::max(most, bound);
    }
    out *= most;
  }
  return out;
}

}  // namespace

struct PosixRegex::Compiled {
  Compiled(const std::string& expression, int flags) : error(regcomp(&regex, expression.c_str(), flags)) {}
  ~Compiled() {
    if (error == 0) regfree(&regex);
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  regex_t regex{};
  int error;
};

PosixRegex::PosixRegex(const std::string& expression, Syntax syntax) {
  if (copies(expression) > kMostCopies)
    throw std::invalid_argument("the bounds of '" + expression + "' multiply to over 1,000");
  auto compiled = std::make_shared<Compiled>(expression, syntax == Syntax::extended ? REG_EXTENDED : 0);
  if (compiled->error != 0) {
    std::array<char, 100> why{};
    regerror(compiled->error, &compiled->regex, why.data(), why.size());
    throw std::invalid_argument("'" + expression + "' is no regular expression: " + why.data());
  }
  compiled_ = std::move(compiled);
}

std::optional<std::vector<std::string_view>> PosixRegex::search(std::string_view text, std::size_t from) const {
  std::vector<regmatch_t> at(compiled_->regex.re_nsub + 1);
  if (!matches_from(compiled_->regex, text, from, at)) return std::nullopt;
  std::vector<std::string_view> out;
  out.reserve(at.size());
  for (const regmatch_t& part : at) {
    const auto begin = static_cast<std::size_t>(part.rm_so), end = static_cast<std::size_t>(part.rm_eo);
    out.push_back(part.rm_so < 0 ? std::string_view() : text.substr(begin, end - begin));
  }
  return out;
}

std::vector<std::string> PosixRegex::all(std::string_view text) const {
  std::vector<std::string> out;
  std::size_t from = 0;
  while (from < text.size()) {
    const auto found = search(text, from);
    if (!found) break;
    const std::string_view match = found->front();
    if (!match.empty()) out.emplace_back(match);
    from = static_cast<std::size_t>(match.data() - text.data()) + std::max<std::size_t>(match.size(), 1);
  }
  return out;
}

}  // namespace rehearse
