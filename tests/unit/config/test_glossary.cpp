#include "core/config/glossary.hpp"

#include <algorithm>
#include <set>

#include "core/config/json_file.hpp"
#include "tests/support/source_path.hpp"
#include "tests/unit/config/support.hpp"

using namespace rehearse;
using rehearse::test::contains;
using rehearse::test::refused;
using rehearse::testing::source_path;

namespace {

Glossary shipped() { return load_glossary(source_path("topologies/glossary.json")); }

/// A file of two terms, of which the second is given.
std::string with(const std::string& second) {
  return R"({"schema": "rehearse/glossary/v1", "terms": [{"term": "ring", "also": ["ring algorithm"], "summary": "s",
    "text": "t", "see": [], "source": "x"}, )" +
         second + "]}";
}

}  // namespace

TEST_CASE("every shipped term is complete and found by each of its names") {
  const Glossary words = shipped();
  CHECK(words.terms().size() >= 60);
  std::set<std::string> names;
  for (const std::string& name : words.names()) CHECK(names.insert(name).second);
  for (const Term& t : words.terms()) {
    INFO(t.term);
    CHECK(words.at(t.term).term == t.term);
    for (const std::string& other : t.also) CHECK(words.at(other).term == t.term);
    CHECK(t.summary.ends_with("."));
    CHECK(t.text.ends_with("."));
    CHECK_FALSE(t.source.empty());
    for (const std::string& other : t.see) {
      CHECK(other != t.term);
      CHECK(words.at(other).term == other);
    }
  }
}

TEST_CASE("a term is found whatever its case, hyphens and spaces") {
  const Glossary words = shipped();
  CHECK(words.at("all_reduce").term == "all-reduce");
  CHECK(words.at("AllReduce").term == "all-reduce");
  CHECK(words.at("Pipeline Bubble").term == "bubble");
  CHECK(words.find("bubbles of soap") == nullptr);
}

TEST_CASE("an unknown term names the nearest and where all are") {
  const Error e = refused([] { (void)shipped().at("bubbel"); });
  CHECK(contains(e.what(), "unknown term 'bubbel'"));
  CHECK(contains(e.hint, "'bubble'"));
  CHECK(contains(e.hint, "rehearse list glossary"));
}

TEST_CASE("the page has every term with what it says") {
  // Wrapped lines of the page are joined again before they are compared.
  std::string page = read_text(source_path("topologies/GLOSSARY.md"));
  std::replace(page.begin(), page.end(), '\n', ' ');
  const Glossary words = shipped();
  for (const Term& t : words.terms()) {
    INFO(t.term);
    CHECK(contains(page, "## " + t.term + "  "));
    CHECK(contains(page, t.summary + " " + t.text));
    CHECK(contains(page, "Source: " + t.source + "."));
  }
}

TEST_CASE("a name that two terms have, and a reference to none, are errors with their place") {
  const Error twice = refused([] {
    (void)parse_glossary(with(R"({"term": "tree", "also": ["Ring"], "summary": "s", "text": "t", "see": [],
      "source": "x"})"),
                         "g.json");
  });
  CHECK(twice.where == "g.json: /terms/1/also");
  CHECK(contains(twice.what(), "'Ring' is already a name of 'ring'"));
  const Error lost = refused([] {
    (void)parse_glossary(with(R"({"term": "tree", "also": [], "summary": "s", "text": "t", "see": ["rings"],
      "source": "x"})"),
                         "g.json");
  });
  CHECK(lost.where == "g.json: /terms/1/see");
  CHECK(contains(lost.hint, "'ring'"));
}

TEST_CASE("a key that a term lacks or doesn't know is an error") {
  const Error lacks = refused([] { (void)parse_glossary(with(R"({"term": "tree"})"), "g.json"); });
  CHECK(lacks.where == "g.json: /terms/1");
  CHECK(contains(lacks.what(), "also"));
  const Error unknown = refused([] {
    (void)parse_glossary(with(R"({"term": "tree", "also": [], "summary": "s", "text": "t", "see": [], "source": "x",
      "colour": "red"})"),
                         "g.json");
  });
  CHECK(contains(unknown.what(), "colour"));
}
