#pragma once
// Regular expressions as grep, sed and the shell's [[ =~ ]] read them: POSIX, by the C library.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

/// A compiled expression.
///
///     const PosixRegex number("[0-9]+");
///     if (const auto found = number.search("8 GPUs")) ... (*found)[0] is "8"
class PosixRegex {
 public:
  enum class Syntax : unsigned char { basic, extended };

  /// Throws std::invalid_argument where it is no such expression, and where its bounds ("{1,255}") multiply to over
  /// 1,000, as the C library writes all of them out.
  explicit PosixRegex(const std::string& expression, Syntax syntax = Syntax::extended);

  /// The leftmost match at or after `from` and its groups, as parts of `text`; a group that took no part has no data.
  /// "^" matches at the beginning of `text` only.
  [[nodiscard]] std::optional<std::vector<std::string_view>> search(std::string_view text, std::size_t from = 0) const;
  /// All matches that are not empty, one after the other.
  [[nodiscard]] std::vector<std::string> all(std::string_view text) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace rehearse
