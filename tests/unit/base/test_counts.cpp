#include "core/base/counts.hpp"

#include "tests/support/catch.hpp"

using rehearse::count_hint;

TEST_CASE("a count with a letter behind it is told as the numbers that it may mean") {
  CHECK(count_hint("8k") == "write 8192 or 8000");
  CHECK(count_hint("128K") == "write 131072 or 128000");
  CHECK(count_hint("1T") == "write 1e12");
  CHECK(count_hint("1.5T") == "write 1.5e12");
  CHECK(count_hint("300B") == "write 300e9");
  CHECK(count_hint("70M") == "write 70e6");
}

TEST_CASE("nothing is said of what is no count") {
  for (const char* text : {"", "k", "8", "8 k", "8km", "-8k", "0k", "eight", "8e"}) CHECK(count_hint(text).empty());
}
