// Sentences take their numbers from figures, and their words where two are offered.

#include "core/base/error.hpp"
#include "core/lesson/figure_text.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

std::optional<double> look(const std::string& name) {
  if (name == "a.t") return 0.25;
  if (name == "b.t") return 0.5;
  return std::nullopt;
}

std::optional<std::string> filled(const std::string& text) { return FigureText::parse(text, "here").fill(look); }

}  // namespace

TEST_CASE("figures are written in their form") {
  CHECK(filled("no figures") == "no figures");
  CHECK(filled("{a.t|time} and {b.t|percent}.") == "250 ms and 50.0 %.");
  CHECK(filled("{b.t / a.t|times} as long") == "2 times as long");
  CHECK(filled("{1024 * 1024|count}") == "1,048,576");
  CHECK(filled("{3 * 1024 * 1024 * 1024|gib}") == "3.00 GiB");
  CHECK(filled("{1e6|bytes}") == "1 MB");
  CHECK(filled("{2 / 3}") == "0.6667");
}

TEST_CASE("figures choose the word") {
  CHECK(filled("b is {b.t > a.t ? 'slower' : 'faster'}") == "b is slower");
  CHECK(filled("a is {a.t > b.t ? 'slower' : 'faster'}") == "a is faster");
}

TEST_CASE("a sentence about a figure that is not there is not said") {
  CHECK(filled("{c.t|time}") == std::nullopt);
  CHECK(FigureText::parse("{a.t} {b.t / c.t}", "here").names() == std::vector<std::string>{"a.t", "b.t", "c.t"});
}

TEST_CASE("broken sentences are refused with their place") {
  for (const char* text : {"{a.t", "{a.t|tme}", "{a.t > b.t ? 'x'}", "{a.t > b.t ? x : y}", "{}"}) {
    INFO(text);
    try {
      (void)FigureText::parse(text, "file: /says/3");
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.where == "file: /says/3");
      CHECK_FALSE(e.hint.empty());
    }
  }
}
