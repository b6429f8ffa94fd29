#include "tests/golden/numbers.hpp"

#include "tests/support/catch.hpp"

using namespace golden;

namespace {

bool alike(const std::string& expected, const std::string& obtained, double tolerance = 0.03) {
  return compare_numbers({expected}, {obtained}, tolerance).alike();
}

}  // namespace

TEST_CASE("numbers may differ by the tolerance, and no more") {
  CHECK(alike("step 20.52 s", "step 21.1 s"));
  CHECK_FALSE(alike("step 20.52 s", "step 21.9 s"));
  CHECK(alike("153,323 tokens", "156,001 tokens"));
  CHECK_FALSE(alike("153,323 tokens", "163,323 tokens"));
  CHECK(alike("(51.7 %)", "(52.9 %)"));
  CHECK_FALSE(alike("(51.7 %)", "(57.1 %)"));
  CHECK(alike("1e-05", "1.02e-05"));
  CHECK_FALSE(alike("1e-05", "1e-06"));
  CHECK_FALSE(alike("20.52 s", "20.61 s", 0.001));
}

TEST_CASE("one unit of the last decimal is rounding; whole numbers have none") {
  CHECK(alike("0.1 %", "0.2 %"));
  CHECK_FALSE(alike("0.1 %", "0.3 %"));
  CHECK(alike("-0.0", "+0.1"));
  CHECK_FALSE(alike("8 GPUs", "9 GPUs"));
  CHECK(alike("100 GPUs", "102 GPUs"));
}

TEST_CASE("a sign counts, and joins no two numbers") {
  CHECK_FALSE(alike("bias -3.7", "bias +3.7"));
  CHECK(alike("7.9-8.8", "8.0-8.7"));
  CHECK_FALSE(alike("7.9-8.8", "7.9-9.8"));
}

TEST_CASE("text must be the same, digits in names too") {
  CHECK_FALSE(alike("step 20.52 s", "step 20.52 ms"));
  CHECK_FALSE(alike("gpt3_175b 1.0", "gpt3_174b 1.0"));
  CHECK_FALSE(alike("dgx_a100_80gb", "dgx_a100_81gb"));
  CHECK_FALSE(alike("1.0 s", "1.0 s more"));
  CHECK_FALSE(alike("1.0 s", ""));
  CHECK_FALSE(alike("1.0", "one"));
  CHECK_FALSE(alike("a1.json", "a2.json"));
}

TEST_CASE("gaps and line breaks move with the numbers and don't count") {
  CHECK(compare_numbers({"step   99.9 s", "by products"}, {"step  100.1 s by", "products"}, 0.03).alike());
}

TEST_CASE("bars are as long as numbers are large, give or take one character") {
  CHECK(alike("x ########################################", "x #######################################"));
  CHECK(alike("x ###", "x ##"));
  CHECK_FALSE(alike("x ######", "x ####"));
}

TEST_CASE("a picture's characters stand near their places") {
  const std::string row = "stage 0 |0011223.....aaaa44....bbbb55....cccc==oooo|";
  CHECK(alike(row, "stage 0 |0011223....aaaaa44....bbbb55....cccc==oooo|"));
  CHECK(alike(row, "stage 0 |0011223....aaaa44....bbbb55....cccc==ooooo|"));
  CHECK(alike(row,
              "stage 0 |001122......aaaa44....bbbb55....cccc==oooo|"));  // what is as short as a character may be lost
  CHECK_FALSE(alike(row, "stage 0 |0011223.....aaaa44....bbb.55....ccc...ooooo|"));
  CHECK_FALSE(alike(row, "stage 0 |0011223.....bbbb44....aaaa55....cccc==oooo|"));
  CHECK_FALSE(alike(row, "stage 0 |00112233....aaaaa4....bbbb55....dddd==oooo|"));
  CHECK_FALSE(alike(row, "stage 0 |0011223.....aaaa44....bbbb55....cccc==oooo.|"));
  CHECK_FALSE(alike(row, "stage 1 |0011223.....aaaa44....bbbb55....cccc==oooo|"));
}

TEST_CASE("what is outside is said with both numbers, the distance and the line") {
  const auto comparison = compare_numbers({"a 1.00", "b 2.00 c 3.00"}, {"a 1.00", "b 4.00 c 3.01"}, 0.03);
  CHECK(comparison.same_text);
  CHECK(comparison.outside == Lines{"line 2: 2.00 became 4.00, 50 % apart (3 % allowed): b 4.00 c 3.01"});
  CHECK_FALSE(compare_numbers({"a 1.00 b"}, {"a 2.00 c"}, 0.03).same_text);
}
