// What stands in for a library that lacks it does what the library does where it has it.
#include <charconv>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "core/base/portable.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

struct Read {
  std::size_t length = 0;
  std::errc error{};
  double value = -7;  // Left as it was where nothing is read.
};

template <class From>
Read read(const std::string& text, std::chars_format format, From from) {
  Read out;
  const auto [end, error] = from(text.data(), text.data() + text.size(), out.value, format);
  out.length = static_cast<std::size_t>(end - text.data());
  out.error = error;
  return out;
}

void check_same(const std::string& text, std::chars_format format) {
  INFO("'" << text << "'");
  const Read library =
      read(text, format, [](const char* a, const char* b, double& v, auto f) { return std::from_chars(a, b, v, f); });
  const Read ours = read(text, format, number_by_grammar);
  CHECK(ours.length == library.length);
  CHECK(ours.error == library.error);
  CHECK((ours.value == library.value || (std::isnan(ours.value) && std::isnan(library.value))));
  CHECK(std::signbit(ours.value) == std::signbit(library.value));
}

}  // namespace

TEST_CASE("numbers are read by their grammar as std::from_chars reads them") {
  for (const char* text : {"",
                           "0",
                           "-0",
                           "1",
                           "-1.5",
                           "+1",
                           " 1",
                           "1 ",
                           ".5",
                           "-.5",
                           ".",
                           "-",
                           "-.",
                           "1.",
                           "1.e3",
                           "1e",
                           "1e+",
                           "1e-",
                           "1e+3",
                           "1E-3",
                           "1e3x",
                           "e3",
                           "12GB",
                           "0x10",
                           "1_000",
                           "1,5",
                           "inf",
                           "-INF",
                           "infinity",
                           "infinit",
                           "nan",
                           "NaN",
                           "-nan",
                           "1e308",
                           "1e309",
                           "-1e999",
                           "1e-300",
                           "1e-400",
                           "0e-999",
                           "0.000e5",
                           "4.9e-324",
                           "1.7976931348623157e308",
                           "0.1",
                           "0.30000000000000004",
                           "123456789012345678901234567890",
                           "9007199254740993",
                           "2.2250738585072011e-308"})
    for (const std::chars_format format : {std::chars_format::general, std::chars_format::fixed})
      check_same(text, format);
}

TEST_CASE("what is printed is read back to the last bit") {
  for (int i = -300; i <= 300; i += 7)
    for (const double mantissa : {1.0, 1.0 / 3, 2.0 / 7, 9.999999999999999}) {
      const double wanted = mantissa * std::pow(10.0, i);
      const std::string text = fmt::format("{}", wanted);
      double value = 0;
      const auto [end, error] = number_by_grammar(text.data(), text.data() + text.size(), value);
      INFO(text);
      CHECK(error == std::errc{});
      CHECK(end == text.data() + text.size());
      CHECK(value == wanted);
    }
}

TEST_CASE("an expression is searched from a place on, and offsets count from the begin") {
  regex_t regex{};
  REQUIRE(regcomp(&regex, "a(b+)", REG_EXTENDED) == 0);
  std::array<regmatch_t, 2> at{};
  CHECK(matches_from(regex, "ab abbb", 1, at));
  CHECK(at[0].rm_so == 3);
  CHECK(at[0].rm_eo == 7);
  CHECK(at[1].rm_so == 4);
  CHECK_FALSE(matches_from(regex, "ab abbb", 4, at));
  regfree(&regex);
}
