#include "core/config/object_reader.hpp"

#include <nlohmann/json.hpp>

#include "tests/unit/config/support.hpp"

using namespace rehearse;
using nlohmann::json;
using rehearse::test::contains;
using rehearse::test::refused;

TEST_CASE("values come out typed, absent ones as their fallback") {
  const json doc = json::parse(
      R"({"id": "x", "on": true, "n": 8, "exact": 1e6, "rate": "200Gb/s", "share": 0.5, "tags": ["a", "b"], "xs":
      [1, 2.5]})");
  ObjectReader r(doc, "m.json");
  CHECK(r.string("id") == "x");
  CHECK(r.boolean("on"));
  CHECK(r.integer("n", {1, 8}) == 8);
  CHECK(r.integer("exact") == 1000000);
  CHECK(r.quantity<BytesPerSecond>("rate") == BytesPerSecond{25e9});
  CHECK(r.number("share", {0, 1}) == 0.5);
  CHECK(r.strings("tags") == std::vector<std::string>{"a", "b"});
  CHECK(r.numbers("xs") == std::vector<double>{1, 2.5});
  CHECK(r.string("absent", "default") == "default");
  CHECK(r.integer("none", {}, 3) == 3);
  CHECK_FALSE(r.boolean("off", false));
  CHECK(r.quantity<Seconds>("delay", Seconds{1e-6}) == Seconds{1e-6});
  CHECK(r.raw("nothing") == nullptr);
  CHECK_FALSE(r.optional_object("part").has_value());
  CHECK_NOTHROW(r.finish());
}

TEST_CASE("a wrong type says what was found, what was wanted and where") {
  const json doc = json::parse(R"({"nodes": [{"gpus": "eight"}], "on": 1, "n": 2.5, "s": 7, "list": {}, "o": [1]})");
  ObjectReader r(doc, "c.json");
  ObjectReader node = r.objects("nodes").front();
  const Error e = refused([&] { (void)node.integer("gpus"); });
  CHECK(e.where == "c.json: /nodes/0/gpus");
  CHECK(std::string(e.what()) == "wanted an integer, found string \"eight\"");
  CHECK(std::string(refused([&] { (void)r.boolean("on"); }).what()) == "wanted true or false, found number 1");
  CHECK(std::string(refused([&] { (void)r.integer("n"); }).what()) == "wanted an integer, found number 2.5");
  CHECK(std::string(refused([&] { (void)r.string("s"); }).what()) == "wanted a string, found number 7");
  CHECK(std::string(refused([&] { (void)r.strings("list"); }).what()) == "wanted an array of strings, found object {}");
  CHECK(std::string(refused([&] { (void)r.strings("o"); }).what()) == "wanted a string at position 0, found number 1");
  CHECK(std::string(refused([&] { (void)r.object("o"); }).what()) == "wanted an object, found array [1]");
  CHECK(refused([&] { (void)r.objects("o"); }).where == "c.json: /o/0");
  CHECK(refused([&] { ObjectReader(json(3), "c.json"); }).where == "c.json: /");
}

TEST_CASE("numbers outside their range name the range") {
  const json doc = json::parse(R"({"n": 0, "huge": 18446744073709551615, "big": 1e300, "share": 1.5, "neg": -1})");
  ObjectReader r(doc, "c.json");
  CHECK(contains(refused([&] { (void)r.integer("n", {1, 8}); }).what(), "1 to 8"));
  CHECK(contains(refused([&] { (void)r.integer("huge"); }).what(), "out of range"));
  CHECK(contains(refused([&] { (void)r.integer("big", {1, 10}); }).what(), "1 to 10"));
  CHECK(contains(refused([&] { (void)r.number("share", {0, 1}); }).what(), "0 to 1"));
  CHECK(contains(refused([&] { (void)r.integer("neg", {.min = 0}); }).what(), "at least 0"));
}

TEST_CASE("a quantity needs its unit") {
  const json doc = json::parse(R"({"bare": 25, "unknown": "25 XB", "negative": "-1MB", "flag": true})");
  ObjectReader r(doc, "c.json");
  const Error bare = refused([&] { (void)r.quantity<Bytes>("bare"); });
  CHECK(contains(bare.what(), "'25'"));
  CHECK(contains(bare.what(), "unit is missing"));
  CHECK(contains(bare.hint, "25MB"));
  CHECK(bare.where == "c.json: /bare");
  CHECK(contains(refused([&] { (void)r.quantity<Bytes>("unknown"); }).what(), "unknown unit 'XB'"));
  CHECK(contains(refused([&] { (void)r.quantity<Bytes>("negative"); }).what(), "negative"));
  CHECK(contains(refused([&] { (void)r.quantity<Bytes>("flag"); }).what(), "found boolean true"));
}

TEST_CASE("a choice is one of its names") {
  const json doc = json::parse(R"({"optimizer": "adma"})");
  ObjectReader r(doc, "c.json");
  const std::vector<std::string> valid{"sgd", "adam", "adamw"};
  const Error e = refused([&] { (void)r.choice("optimizer", valid); });
  CHECK(std::string(e.what()) == "unknown optimizer 'adma'");
  CHECK(e.hint.starts_with("did you mean 'adam'?"));
  CHECK(r.choice("other", valid, "sgd") == "sgd");
}

TEST_CASE("missing keys are named at the object that lacks them") {
  const json doc = json::parse(R"({"strategy": {}})");
  ObjectReader r(doc, "c.json");
  ObjectReader strategy = r.object("strategy");
  const Error e = refused([&] { (void)strategy.integer("tp"); });
  CHECK(std::string(e.what()) == "key 'tp' is missing: an integer");
  CHECK(e.where == "c.json: /strategy");
}

TEST_CASE("keys nobody asked for are refused with the nearest valid one") {
  const json doc = json::parse(R"({"bukcet": 1, "tp": 2})");
  ObjectReader r(doc, "c.json");
  (void)r.integer("tp");
  (void)r.string("bucket", "25MB");
  const Error e = refused([&] { r.finish(); });
  CHECK(e.where == "c.json: /bukcet");
  CHECK(std::string(e.what()) == "unknown key 'bukcet'");
  CHECK(e.hint == "did you mean 'bucket'? valid: bucket, tp");
  r.expect("bukcet");
  CHECK_NOTHROW(r.finish());
}

TEST_CASE("null is a wrong type unless the file's habit is to write it for absent") {
  const json doc = json::parse(R"({"n": null})");
  ObjectReader r(doc, "c.json");
  CHECK(std::string(refused([&] { (void)r.integer("n", {}, 4); }).what()) == "wanted an integer, found null");
  r.take_null_as_absent();
  CHECK(r.integer("n", {}, 4) == 4);
}

TEST_CASE("paths escape slashes and long values are cut") {
  const json doc = {{"a/b~c", std::string(1000, 'x')}};
  ObjectReader r(doc, "c.json");
  const Error e = refused([&] { (void)r.integer("a/b~c"); });
  CHECK(e.where == "c.json: /a~1b~0c");
  CHECK(std::string(e.what()).size() < 120);
}
