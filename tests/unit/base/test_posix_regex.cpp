#include <stdexcept>

#include "core/base/posix_regex.hpp"
#include "tests/support/catch.hpp"

using rehearse::PosixRegex;

TEST_CASE("a match and its groups are parts of the text") {
  const std::string text = "--nnodes 16 --nproc 8";
  const auto found = PosixRegex("--(nproc|gpus) ([0-9]+)( more)?").search(text);
  REQUIRE(found);
  REQUIRE(found->size() == 4);
  CHECK((*found)[0] == "--nproc 8");
  CHECK((*found)[0].data() == text.data() + 12);
  CHECK((*found)[2] == "8");
  CHECK((*found)[3].data() == nullptr);
}

TEST_CASE("basic expressions are those of sed") {
  const auto found = PosixRegex(R"(\(a+\)x)", PosixRegex::Syntax::basic).search("aa+x");
  REQUIRE(found);
  CHECK((*found)[1] == "a+");
}

TEST_CASE("the beginning of a line is not where a later search begins") {
  const PosixRegex first("^[a-z]");
  CHECK(first.search("ab"));
  CHECK_FALSE(first.search("ab", 1));
  CHECK_FALSE(first.search(""));
}

TEST_CASE("all matches, one after the other") {
  CHECK(PosixRegex("[0-9]*").all("8 x 16") == std::vector<std::string>{"8", "16"});
  CHECK(PosixRegex("z").all("").empty());
}

TEST_CASE("what is no expression is refused, and what the C library would write out a million times") {
  CHECK_THROWS_AS(PosixRegex("(a"), std::invalid_argument);
  CHECK_THROWS_AS(PosixRegex("[b"), std::invalid_argument);
  CHECK_THROWS_AS(PosixRegex("((a{1,100}){1,100}){100}"), std::invalid_argument);
  CHECK_NOTHROW(PosixRegex("a{1,100}"));
}
