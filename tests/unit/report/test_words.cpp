// Percentages that add up, grouped digits, wrapped lines.

#include <numeric>
#include <set>

#include "core/play/words.hpp"
#include "core/report/formats/format.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

TEST_CASE("printed percentages add up to 100.0 though each is rounded", "[words]") {
  for (const std::vector<double>& parts :
       {std::vector<double>{1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}, {0.3334, 0.3333, 0.3333}, {1e-9, 5, 2}}) {
    double sum = 0;
    for (const std::string& p : percentages(parts)) sum += std::stod(p);
    CHECK(sum == Approx(100.0).margin(1e-9));
  }
}

TEST_CASE("a third is 33.3 or 33.4 percent, never further off", "[words]") {
  for (const std::string& p : percentages({1, 1, 1})) CHECK((p == "33.3" || p == "33.4"));
}

TEST_CASE("shares of nothing are nothing", "[words]") {
  CHECK(percentages({0, 0}) == std::vector<std::string>{"0.0", "0.0"});
}

TEST_CASE("thousands are grouped", "[words]") {
  CHECK(with_commas(7) == "7");
  CHECK(with_commas(1024) == "1,024");
  CHECK(with_commas(174615846912.0) == "174,615,846,912");
  CHECK(with_commas(-1000) == "-1,000");
}

TEST_CASE("every category has words of its own", "[words]") {
  std::set<std::string_view> words;
  for (int c = 0; c < kTimeCategories; ++c) words.insert(words_of(static_cast<TimeCategory>(c)));
  CHECK(words.size() == kTimeCategories);
}

TEST_CASE("wrapped lines keep to the width, unless one word is longer", "[words]") {
  const std::string text = wrap("the quick brown fox jumps over extraordinarily lazy dogs", 12, 2);
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    CHECK((columns_of(line) <= 12 + 2 || line == "  extraordinarily"));
    begin = end + 1;
  }
  CHECK(text.find("\n  ") != std::string::npos);
}

TEST_CASE("escapes and continuation bytes take no columns", "[words]") {
  CHECK(columns_of("\033[1mbold\033[0m") == 4);
  CHECK(columns_of("\xC2\xB5s") == 2);
}
