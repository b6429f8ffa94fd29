#include "tests/golden/diff.hpp"

#include <algorithm>

namespace golden {
namespace {

using TextLines = std::vector<std::string>;

constexpr std::size_t kContext = 3;

struct Edit {
  char mark;  // ' ' in both, '-' only expected, '+' only obtained
  const std::string* text;
};

/// common[i][j] is the length of the longest common subsequence of a[i..) and b[j..).
std::vector<std::vector<int>> common_lengths(const TextLines& a, const TextLines& b) {
  std::vector<std::vector<int>> common(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;)
    for (std::size_t j = b.size(); j-- > 0;)
      common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  return common;
}

std::vector<Edit> edit_script(const TextLines& a, const TextLines& b) {
  const auto common = common_lengths(a, b);
  std::vector<Edit> script;
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      script.push_back({' ', &a[i++]});
      ++j;
    } else if (i < a.size() && (j == b.size() || common[i + 1][j] >= common[i][j + 1])) {
      script.push_back({'-', &a[i++]});
    } else {
      script.push_back({'+', &b[j++]});
    }
  }
  return script;
}

/// "12,3", or "12" for one line; an empty range names the line before it.
std::string range(std::size_t first, std::size_t count) {
  if (count == 1) return std::to_string(first + 1);
  return std::to_string(count == 0 ? first : first + 1) + "," + std::to_string(count);
}

struct Position {
  std::size_t expected = 0;
  std::size_t obtained = 0;

  void advance(char mark) {
    if (mark != '+') ++expected;
    if (mark != '-') ++obtained;
  }
};

/// Appends the hunk script[begin, end), which starts at `at`, and returns where it ends.
Position append_hunk(const std::vector<Edit>& script, std::size_t begin, std::size_t end, Position at, TextLines& out) {
  const Position start = at;
  const auto header = out.size();
  out.emplace_back();
  for (auto i = begin; i < end; ++i) {
    out.push_back(script[i].mark + *script[i].text);
    at.advance(script[i].mark);
  }
  out[header] = "@@ -" + range(start.expected, at.expected - start.expected) + " +" +
                range(start.obtained, at.obtained - start.obtained) + " @@";
  return at;
}

/// Where the hunk that begins at `begin` ends: after the context of the last change that is near the one before.
std::size_t hunk_end(const std::vector<Edit>& script, std::size_t begin) {
  auto last_change = begin;
  for (auto i = begin; i < script.size() && i <= last_change + 2 * kContext + 1; ++i)
    if (script[i].mark != ' ') last_change = i;
  return std::min(script.size(), last_change + kContext + 1);
}

}  // namespace

TextLines unified_diff(const TextLines& expected, const TextLines& obtained) {
  if (expected == obtained) return {};
  const auto script = edit_script(expected, obtained);
  TextLines out{"--- expected", "+++ obtained"};
  Position at;
  std::size_t done = 0;
  for (std::size_t i = 0; i < script.size(); ++i) {
    if (i < done || script[i].mark == ' ') continue;
    const auto begin = i < done + kContext ? done : i - kContext;
    for (auto k = done; k < begin; ++k) at.advance(script[k].mark);
    done = hunk_end(script, i);
    at = append_hunk(script, begin, done, at, out);
  }
  return out;
}

}  // namespace golden
