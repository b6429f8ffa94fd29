#include "core/config/json_file.hpp"

#include <sys/resource.h>

#include <random>

#include <nlohmann/json.hpp>

#include "tests/unit/config/support.hpp"

using namespace rehearse;
using rehearse::test::contains;
using rehearse::test::Directory;
using rehearse::test::refused;

namespace {
Error bad_json(const std::string& text) {
  return refused([&] { (void)parse_json(text, "a.json"); });
}
}  // namespace

TEST_CASE("JSON is read as the library reads it") {
  const std::string text =
      R"({"a": [1, -2, 2.5e3, true, null, "x\u00e9"], "b": {"c": {}, "d": []}, "": 18446744073709551615})";
  CHECK(parse_json(text, "a.json") == nlohmann::json::parse(text));
  CHECK(parse_json("7", "a.json") == 7);
  CHECK(parse_json("\xef\xbb\xbf{\"a\": 1}", "a.json").at("a") == 1);  // Byte-order mark.
}

TEST_CASE("a key that occurs twice is refused with its path") {
  const Error e = bad_json(R"({"list": [{}, {"strategy": {"tp": 1, "tp": 2}}]})");
  CHECK(e.where == "a.json: /list/1/strategy/tp");
  CHECK(contains(e.what(), "'tp' occurs twice"));
  CHECK(bad_json(R"({"a": 1, "a": 1})").where == "a.json: /a");
  CHECK_NOTHROW(parse_json(R"({"a": {"b": 1}, "c": {"b": 1}, "d": [{"b": 1}, {"b": 1}]})", "a.json"));
}

TEST_CASE("syntax errors name line and column") {
  const Error e = bad_json("{\n  \"a\": 1,\n  \"b\" 2\n}");
  CHECK(e.where == "a.json:3:7");
  CHECK(contains(e.what(), "not JSON"));
  CHECK(contains(e.what(), "':'"));
  CHECK(bad_json("{\"a\": 1,}").where == "a.json:1:9");
  CHECK(bad_json("{\"a\": 1} x").where == "a.json:1:10");
  CHECK(bad_json("{'a': 1}").where == "a.json:1:2");
  CHECK(bad_json("{\"a\": 01}").where == "a.json:1:8");
  CHECK(bad_json("// note\n{}").where == "a.json:1:1");
}

TEST_CASE("a truncated text says that it ends early, and where") {
  const Error e = bad_json("{\n\"a\": [1, 2");
  CHECK(contains(e.what(), "ends early"));
  CHECK(e.where == "a.json:2:11");
  CHECK(contains(bad_json("{\"a\": \"xyz").what(), "ends early"));
  CHECK(contains(bad_json("").what(), "empty"));
  CHECK(contains(bad_json(" \n").what(), "empty"));
}

TEST_CASE("NaN, infinities and numbers beyond a double are refused") {
  for (const char* text : {R"({"a": NaN})", R"({"a": nan})", R"({"a": Infinity})", R"({"a": -Infinity})", R"([-inf])"})
    CHECK(contains(bad_json(text).hint, "no NaN"));
  CHECK(bad_json(R"({"a": 1e999})").where.starts_with("a.json:1:"));
  CHECK(bad_json(R"({"a": -1e999})").where.starts_with("a.json:1:"));
}

TEST_CASE("text in another encoding is refused in readable words") {
  const Error e = bad_json("{\"a\": \"\xff\xfe\"}");
  for (const char c : std::string(e.what())) CHECK((c >= 0x20 && c < 0x7f));
  CHECK(contains(bad_json(std::string("\xff\xfe{\0}\0", 6)).hint, "UTF-16"));
  CHECK_NOTHROW(bad_json(std::string("{\"a\0\": 1}", 9)));
}

TEST_CASE("nesting has a limit, so that no text exhausts the stack") {
  const auto nested = [](int n) { return std::string(n, '[') + std::string(n, ']'); };
  CHECK_NOTHROW(parse_json(nested(64), "a.json"));
  CHECK(contains(bad_json(nested(65)).what(), "nested deeper than 64"));
  CHECK(contains(bad_json(std::string(1000000, '[')).what(), "nested deeper"));
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  CHECK(contains(bad_json(objects).what(), "nested deeper"));
  CHECK_NOTHROW(parse_json(nested(3), "a.json", {.depth = 3}));
  CHECK_THROWS_AS(parse_json(nested(4), "a.json", {.depth = 3}), Error);
}

TEST_CASE("missing files, directories and unreadable files are usage errors that name the path") {
  const Directory dir("files");
  CHECK(load_json(dir.write("good.json", "{\"a\": 1}")).at("a") == 1);
  const Error missing = refused([&] { (void)load_json(dir.at("none.json")); });
  CHECK(missing.where == dir.at("none.json"));
  CHECK(std::string(missing.what()) == "no such file");
  CHECK(contains(refused([&] { (void)load_json(dir.at("")); }).what(), "directory"));
  CHECK(contains(refused([&] { (void)load_json(""); }).what(), "no such file"));
  CHECK_NOTHROW(refused([&] { (void)load_json(dir.at("good.json") + "/below"); }));
  std::filesystem::create_symlink(dir.at("loop"), dir.at("loop"));
  CHECK_NOTHROW(refused([&] { (void)load_json(dir.at("loop")); }));
}

TEST_CASE("a file of a gigabyte is refused before it is read") {
  const Directory dir("large");
  const std::string path = dir.write("large.json", "{");
  std::filesystem::resize_file(path, 1'000'000'000);  // Sparse: takes no room on disk.
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const Error e = refused([&] { (void)load_json(path); });
  getrusage(RUSAGE_SELF, &after);
  CHECK(contains(e.what(), "1 GB"));
  CHECK(contains(e.what(), "at most 64 MB"));
  CHECK(after.ru_maxrss - before.ru_maxrss < 16 * 1024);  // KiB.
  // No size to ask for.
  CHECK(contains(refused([&] { (void)read_text("/dev/zero", 1'000'000); }).what(), "at most 1 MB"));
}
