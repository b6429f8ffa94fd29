#include "core/base/registry.hpp"

#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

const std::vector<std::string> kSchedules{"1f1b", "gpipe", "interleaved_1f1b", "zero_bubble"};

Registry<int> numbers() {
  Registry<int> r("number");
  r.add({"two", "The even prime.", {}, 2});
  r.add({"one", "The unit.", {}, 1});
  r.add({"three", "The odd prime.", {}, 3});
  return r;
}

}  // namespace

TEST_CASE("the nearest name is suggested for a slip of the finger") {
  CHECK(did_you_mean("gpip", kSchedules) == "gpipe");
  CHECK(did_you_mean("1fb1", kSchedules) == "1f1b");  // Swapped neighbours are one slip.
  CHECK(did_you_mean("interleave_1f1b", kSchedules) == "interleaved_1f1b");
  CHECK(did_you_mean("GPipe", kSchedules) == "gpipe");
  CHECK(did_you_mean("zerobubble", kSchedules) == "zero_bubble");
}

TEST_CASE("nothing is suggested for a word that is near none") {
  CHECK(did_you_mean("dualpipe_v", kSchedules).empty());
  CHECK(did_you_mean("", kSchedules).empty());
  CHECK(did_you_mean("xx", std::vector<std::string>{"tp", "pp"}).empty());  // Every letter would have to go.
  CHECK(did_you_mean(std::string(1000000, 'a'), kSchedules).empty());
  CHECK(did_you_mean("gpipe", std::vector<std::string>{}).empty());
}

TEST_CASE("of two equally near names the first wins") {
  CHECK(did_you_mean("cp", std::vector<std::string>{"dp", "tp"}) == "dp");
}

TEST_CASE("an unknown name is a usage error with suggestion and list") {
  const Error e = unknown_name("schedule", "gpip", kSchedules);
  CHECK(e.kind == ErrorKind::usage);
  CHECK(std::string(e.what()) == "unknown schedule 'gpip'");
  CHECK(e.hint == "did you mean 'gpipe'? valid: 1f1b, gpipe, interleaved_1f1b, zero_bubble");
  CHECK(unknown_name("schedule", "x", std::vector<std::string>{}).hint == "no schedule is registered");
}

TEST_CASE("a long list of names is cut") {
  const std::vector<std::string> many(100, "name");
  CHECK(unknown_name("thing", "q", many).hint.ends_with("and 40 more"));
}

TEST_CASE("entries are sorted whatever the order of registration") {
  CHECK(numbers().names() == std::vector<std::string>{"one", "three", "two"});
  CHECK(numbers().at("two").value == 2);
  CHECK(numbers().at("two").summary == "The even prime.");
}

TEST_CASE("a name is taken once and must exist") {
  Registry<int> r = numbers();
  CHECK_THROWS_AS(r.add({"one", "", {}, 7}), std::logic_error);
  CHECK_THROWS_AS(r.at("tow"), Error);
  try {
    (void)r.at("tow");
  } catch (const Error& e) {
    CHECK(e.hint.starts_with("did you mean 'two'?"));
  }
}
