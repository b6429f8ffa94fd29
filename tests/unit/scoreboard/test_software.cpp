#include "tests/unit/scoreboard/rows.hpp"

using namespace rehearse;
using namespace rehearse::test;
namespace fs = std::filesystem;

namespace {

/// A folder with one file, gone afterwards.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("rehearse_software_" + std::to_string(::getpid()));
  explicit Folder(const std::string& text) {
    fs::create_directories(path);
    std::ofstream(path / "one.json") << text;
  }
  ~Folder() { fs::remove_all(path); }
};

std::string refusal(const std::string& entries,
                    const std::string& sources = R"({"s": {"text": "t", "evidence": "published"}})") {
  const Folder folder(R"({"schema": "rehearse/software/v1", "name": "n", "entries": )" + entries + R"(, "sources": )" +
                      sources + "}");
  try {
    (void)SoftwareTable::load(folder.path);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("every shipped default has a citation") {
  for (const auto& entry : software().entries())
    for (const auto& [field, d] : entry.defaults) {
      INFO(field);
      CHECK(d.source.text.size() > 10);
    }
}

TEST_CASE("later entries go before earlier ones, and rows match whatever the case") {
  const Folder folder(
      R"({"schema": "rehearse/software/v1", "name": "n", "sources": {"s": {"text": "t", "evidence": "published"}},
      "entries": [
    {"when": {}, "defaults": {"attention": ["flash2", "s"], "dropout": [0, "s"]}},
    {"when": {"source": "BLOG", "tp": [2, 4]}, "release": "second", "defaults": {"attention": ["unfused", "s", "why"]}},
    {"when": {"source": "blog", "tp": 8}, "release": "third", "defaults": {"attention": ["cudnn", "s"]}}]})");
  const SoftwareTable table = SoftwareTable::load(folder.path);
  const Measurement row = row_of(row_json());
  CHECK(text_of(table.defaults_for(row).at("attention").value) == "unfused");
  CHECK(text_of(table.defaults_for(row).at("dropout").value) == "0");
  CHECK(table.release_of(row) == "second");
}

TEST_CASE("a row may meet any of several sets of conditions") {
  const Folder folder(
      R"({"schema": "rehearse/software/v1", "name": "n", "sources": {"s": {"text": "t", "evidence": "published"}},
      "entries": [
    {"when": [{"source": "nobody"}, {"source": "blog", "tp": 8}], "defaults": {"attention": ["unfused", "s"]}},
    {"when": [{"source": "nobody"}, {"source": "blog", "tp": 2}], "defaults": {"dropout": [0, "s"]}}]})");
  const auto defaults = SoftwareTable::load(folder.path).defaults_for(row_of(row_json()));
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
