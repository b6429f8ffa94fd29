#include "tests/unit/scoreboard/rows.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

RowDefaults defaults_in(const std::string& entries,
                        const std::string& sources = R"({"s": {"text": "t", "evidence": "published"}})") {
  return RowDefaults::parse(R"({"entries": )" + entries + R"(, "sources": )" + sources + "}", "rows.json");
}

std::string refusal(const std::string& entries,
                    const std::string& sources = R"({"s": {"text": "t", "evidence": "published"}})") {
  try {
    (void)defaults_in(entries, sources);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("every shipped default has a citation") {
  for (const auto& entry : row_defaults().entries())
    for (const auto& [field, d] : entry.defaults) {
      INFO(field);
      CHECK(d.source.text.size() > 10);
    }
}

TEST_CASE("later entries go before earlier ones, and rows match whatever the case") {
  const RowDefaults table = defaults_in(R"([
    {"when": {}, "defaults": {"attention": ["flash2", "s"], "dropout": [0, "s"]}},
    {"when": {"source": "BLOG", "tp": [2, 4]}, "release": "second", "defaults": {"attention": ["unfused", "s", "why"]}},
    {"when": {"source": "blog", "tp": 8}, "release": "third", "defaults": {"attention": ["cudnn", "s"]}}])");
  const Measurement row = row_of(row_json());
  CHECK(text_of(table.defaults_for(row).at("attention").value) == "unfused");
  CHECK(text_of(table.defaults_for(row).at("dropout").value) == "0");
  CHECK(table.release_of(row) == "second");
}

TEST_CASE("a row may meet any of several sets of conditions") {
  const RowDefaults table = defaults_in(R"([
    {"when": [{"source": "nobody"}, {"source": "blog", "tp": 8}], "defaults": {"attention": ["unfused", "s"]}},
    {"when": [{"source": "nobody"}, {"source": "blog", "tp": 2}], "defaults": {"dropout": [0, "s"]}}])");
  const auto defaults = table.defaults_for(row_of(row_json()));
  CHECK(defaults.contains("dropout"));
  CHECK_FALSE(defaults.contains("attention"));
}

TEST_CASE("files of defaults are read strictly") {
  CHECK(refusal(R"([{"when": [], "defaults": {"a": [1, "s"]}}])") == "no row meets an empty list");
  CHECK(refusal(R"([{"when": ["any"], "defaults": {"a": [1, "s"]}}])") == "wanted conditions, or a list of such");
  CHECK(refusal(R"([{"when": {}, "defaults": {"a": [1, "s"]}}])") == "accepted");
  CHECK(refusal(R"([{"when": {}, "defaults": {"a": [1, "other"]}}])") == "'other' is not among the sources");
  CHECK(refusal(R"([{"when": {}, "defaults": {"a": 1}}])") == "wanted [value, source] or [value, source, why]");
  CHECK(refusal(R"([{"when": {}, "default": {}}])") == "unknown key 'default'");
  CHECK(refusal(R"([{"when": {}, "defaults": {}}])") == "nothing cites it");
  CHECK(refusal(R"([])", R"({"s": {"text": "t", "evidence": "hearsay"}})") != "accepted");
}

TEST_CASE("what a file says of its rows goes before what any row is given") {
  nlohmann::json file{{"entries", {row_json()}}};
  file["file_meta"]["defaults"] = nlohmann::json::parse(R"({"entries": [
    {"when": {}, "release": "own", "defaults": {"attention": ["unfused", "s"]}},
    {"when": {"tp": 8}, "defaults": {"attention": ["cudnn", "s"]}}],
    "sources": {"s": {"text": "the paper, section 3", "evidence": "published"}}})");
  const Measurement row = parse_measurements(file.dump(), "rows.json").at(0);
  const MappedRow mapped = map_row(row, row_sources());
  REQUIRE(mapped.job);
  CHECK(mapped.job->scenario.kernels.attention == AttentionKernel::unfused);
  CHECK(mapped.job->release == "own");
  file["file_meta"]["defaults"]["entries"][0]["defaults"]["attention"] = "unfused";
  CHECK_THROWS_AS(parse_measurements(file.dump(), "rows.json"), Error);
}
