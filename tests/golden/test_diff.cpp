#include "tests/golden/diff.hpp"

#include <algorithm>

#include "tests/support/catch.hpp"

using golden::unified_diff;
using Lines = std::vector<std::string>;

TEST_CASE("equal texts have no difference") {
  CHECK(unified_diff({}, {}).empty());
  CHECK(unified_diff({"a", "b"}, {"a", "b"}).empty());
}

TEST_CASE("a difference reads as patch(1) takes it") {
  SECTION("a changed line, with its context") {
    CHECK(unified_diff({"a", "b", "c"}, {"a", "x", "c"}) ==
          Lines{"--- expected", "+++ obtained", "@@ -1,3 +1,3 @@", " a", "-b", "+x", " c"});
  }
  SECTION("an empty side names line 0") {
    CHECK(unified_diff({}, {"a"}) == Lines{"--- expected", "+++ obtained", "@@ -0,0 +1 @@", "+a"});
    CHECK(unified_diff({"a"}, {}) == Lines{"--- expected", "+++ obtained", "@@ -1 +0,0 @@", "-a"});
  }
}

namespace {

/// "0", "1", ... with the lines at `changed` replaced.
Lines counted(int count, const std::vector<int>& changed = {}) {
  Lines lines;
  for (int i = 0; i < count; ++i) lines.push_back(std::to_string(i));
  for (int i : changed) lines[static_cast<std::size_t>(i)] = "changed";
  return lines;
}

Lines headers(const Lines& diff) {
  Lines found;
  for (const auto& line : diff)
    if (line.front() == '@') found.push_back(line);
  return found;
}

}  // namespace

TEST_CASE("changes far apart are separate hunks, near ones share one") {
  CHECK(headers(unified_diff(counted(30), counted(30, {5, 20}))) == Lines{"@@ -3,7 +3,7 @@", "@@ -18,7 +18,7 @@"});
  // six equal lines between
  CHECK(headers(unified_diff(counted(30), counted(30, {5, 12}))) == Lines{"@@ -3,14 +3,14 @@"});
  // seven
  CHECK(headers(unified_diff(counted(30), counted(30, {5, 13}))) == Lines{"@@ -3,7 +3,7 @@", "@@ -11,7 +11,7 @@"});
}

TEST_CASE("the difference is a shortest one") {
  const auto diff = unified_diff({"a", "b", "c", "a", "b", "b", "a"}, {"c", "b", "a", "b", "a", "c"});
  const auto changes =
      std::count_if(diff.begin() + 2, diff.end(), [](const auto& line) { return line[0] == '-' || line[0] == '+'; });
  CHECK(changes == 5);  // their longest common subsequence has 4 lines: 7 + 6 - 2 * 4
}
