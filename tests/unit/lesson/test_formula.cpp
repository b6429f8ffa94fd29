// Formulas of lessons are arithmetic as school has it, and say where they were not understood.

#include "core/base/error.hpp"
#include "core/lesson/formula.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

std::optional<double> value(
    const std::string& text, const FigureLookup& lookup = [](const std::string&) { return std::optional<double>{}; }) {
  return Formula::parse(text, "here").value(lookup);
}

std::optional<double> two_or_nothing(const std::string& name) {
  return name == "a.two" ? std::optional<double>{2} : std::nullopt;
}

}  // namespace

TEST_CASE("products before sums, left to right, brackets first") {
  CHECK(value("1 + 2 * 3") == 7);
  CHECK(value("(1 + 2) * 3") == 9);
  CHECK(value("8 - 3 - 2") == 3);
  CHECK(value("16 / 4 / 2") == 2);
  CHECK(value("-2 * -3") == 6);
  CHECK(value("2e3 + 0.5e1") == 2005);
}

TEST_CASE("comparisons are 1 or 0 and bind last") {
  CHECK(value("1 + 1 < 3") == 1);
  CHECK(value("3 <= 2") == 0);
  CHECK(value("2 >= 2") == 1);
  CHECK(value("2 > 2") == 0);
}

TEST_CASE("functions") {
  CHECK(value("min(3, 1, 2)") == 1);
  CHECK(value("max(3, 1 + 6, 2)") == 7);
  CHECK(value("max(4)") == 4);
  CHECK(value("abs(1 - 5)") == 4);
  CHECK(value("round(2.6)") == 3);
}

TEST_CASE("a name without a value, and a division by zero, leave nothing to say") {
  CHECK(value("3 * a.two", two_or_nothing) == 6);
  CHECK(value("3 * a.two + b", two_or_nothing) == std::nullopt);
  CHECK(value("1 / (a.two - 2)", two_or_nothing) == std::nullopt);
  const Formula f = Formula::parse("a.two + b + a.two", "here");
  CHECK(f.names() == std::vector<std::string>{"a.two", "b"});
}

TEST_CASE("what is no formula is refused with its place") {
  for (const char* text :
       {"", "1 +", "(1", "1 2", "a b", "sqrt(2)", "abs(1, 2)", "1 < 2 < 3", "$", "min()", "1..2 +"}) {
    INFO(text);
    try {
      (void)Formula::parse(text, "lesson.json: /says/0");
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.kind == ErrorKind::usage);
      CHECK(e.where == "lesson.json: /says/0");
      CHECK(std::string(e.what()).find("expected at") != std::string::npos);
    }
  }
  CHECK_THROWS_AS(Formula::parse(std::string(5000, '(') + "1", "here"), Error);
  CHECK_THROWS_AS(Formula::parse(std::string(5000, '-') + "1", "here"), Error);
}
