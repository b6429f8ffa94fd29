// One document, every format.

#include <nlohmann/json.hpp>

#include "core/report/formats/format.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

Document sample() {
  Document d;
  d.blocks = {
      Heading{"A plan"}, Facts{"", {{"step time", "13.8 s"}}},
      Table{
          "Parts", {{"part", false}, {"seconds", true}}, {{"matrix products", "9.5"}, {"a | b", "10.25"}}, {1.0, 0.5}},
      Picture{"Drawn", [](const TextStyle& s) { return std::string(static_cast<std::size_t>(s.width), '-') + "\n"; }}};
  d.records = {"", {{"name"}, {"note"}}, {{"a", "plain"}, {"b", "with, comma and \"quotes\""}}};
  d.json = "{\"step_time_s\": 13.8}\n";
  return d;
}

std::string rendered(const std::string& format, const TextStyle& style = {80, false}) {
  return formats().at(format).value(sample(), style);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

}  // namespace

TEST_CASE("every registered format renders any document, ends in a newline and gives the same bytes twice",
          "[formats]") {
  CHECK(formats().entries().size() >= 4);
  for (const auto& entry : formats().entries()) {
    const std::string text = entry.value(sample(), {});
    INFO(entry.name);
    REQUIRE_FALSE(text.empty());
    CHECK(text.back() == '\n');
    CHECK(text == entry.value(sample(), {}));
    CHECK_FALSE(entry.summary.empty());
  }
}

TEST_CASE("an unknown format names the nearest", "[formats]") {
  try {
    (void)formats().at("jsn");
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.hint.find("'json'") != std::string::npos);
  }
}

TEST_CASE("a text that is too long for its line, in any column, goes on below itself", "[formats]") {
  const std::string words =
      "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen";
  Document d;
  d.blocks = {Table{"", {{"key"}, {"type"}, {"what"}}, {{"a.key", words, "last"}}}};
  const std::string text = formats().at("table").value(d, {50, false});
  for (const std::string& line : lines_of(text)) CHECK(columns_of(line) <= 50);
  CHECK(text.find("sixteen") != std::string::npos);
}

TEST_CASE("numbers stand right, words left", "[formats]") {
  const std::string text = rendered("table");
  CHECK(text.find("part             seconds\n") != std::string::npos);
  CHECK(text.find("matrix products      9.5") != std::string::npos);
  CHECK(text.find("a | b              10.25") != std::string::npos);
}

TEST_CASE("bars are in proportion, and gone where there is no room", "[formats]") {
  const auto hashes = [](const std::string& text) { return std::count(text.begin(), text.end(), '#'); };
  CHECK(hashes(rendered("table", {200, false})) == 40 + 20);
  CHECK(hashes(rendered("table", {40, false})) == 14 + 7);
  CHECK(hashes(rendered("table", {30, false})) == 0);
}

TEST_CASE("no line of a table is wider than the terminal", "[formats]") {
  Document d;
  Table wide{"", {{"stage", true}}, {}};
  for (int c = 0; c < 12; ++c) wide.columns.push_back({"category" + std::to_string(c), true});
  wide.rows.push_back(std::vector<std::string>(13, "12.34"));
  d.blocks = {wide};
  for (const int width : {40, 60, 100}) {
    const std::string text = formats().at("table").value(d, {width, false});
    for (const std::string& line : lines_of(text)) CHECK(columns_of(line) <= width);
    CHECK(text.find("category11") != std::string::npos);
  }
}

TEST_CASE("colour only where it is allowed", "[formats]") {
  CHECK(rendered("table", {80, false}).find('\033') == std::string::npos);
  CHECK(rendered("table", {80, true}).find('\033') != std::string::npos);
  CHECK(rendered("md", {80, true}).find('\033') == std::string::npos);
}

TEST_CASE("csv quotes as RFC 4180 says", "[formats]") {
  CHECK(rendered("csv") == "name,note\na,plain\nb,\"with, comma and \"\"quotes\"\"\"\n");
}

TEST_CASE("json is the document's own", "[formats]") {
  CHECK(nlohmann::json::parse(rendered("json")).at("step_time_s") == 13.8);
}

TEST_CASE("Markdown escapes what would break its tables", "[formats]") {
  const std::string text = rendered("md");
  CHECK(text.find("| a \\| b | 10.25 |") != std::string::npos);
  CHECK(text.find("|---|--:|") != std::string::npos);
}
