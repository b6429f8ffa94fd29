// The file: whole or not there, with the answer in it as it was given.

#include <filesystem>
#include <fstream>
#include <iterator>

#include <unistd.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/report/formats/text_output.hpp"
#include "core/report/html/html_report.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
namespace fs = std::filesystem;

namespace {

HtmlReport report() {
  return {"collectives",
          "9.9",
          R"({"rows": [], "odd": "</script><!-- & \u00e9", "x": 0.1234567890123456})",
          "",
          {{"more", "[1, 2]"}}};
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string between(const std::string& text, const std::string& open, const std::string& close) {
  const std::size_t at = text.find(open) + open.size();
  return text.substr(at, text.find(close, at) - at);
}

/// An empty folder that goes with the test.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("rehearse_html_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
};

}  // namespace

TEST_CASE("the page carries the answer unchanged, whatever its strings hold", "[html]") {
  const std::string data = between(html_text(report()), "id=\"report-data\">", "</script>");
  CHECK(data.find('<') == std::string::npos);
  const auto carried = nlohmann::json::parse(data);
  CHECK(carried["answer"] == nlohmann::json::parse(report().answer));
  CHECK(carried["more"] == nlohmann::json({1, 2}));
  CHECK(carried["kind"] == "collectives");
}

TEST_CASE("a page loads nothing from anywhere", "[html]") {
  const std::string text = html_text(report());
  for (const char* loading :
       {" src=", "@import", "url(http", "<link rel=\"stylesheet\"", "fetch(", "XMLHttpRequest("}) {
    CAPTURE(loading);
    CHECK(between(text, "<style>", "</style>").find(loading) == std::string::npos);
    CHECK(between(text, "(() => {\n'use strict'", "</script>").find(loading) == std::string::npos);
  }
}

TEST_CASE("a report is written whole, over what was there, and leaves nothing beside it", "[html]") {
  const Folder folder;
  const fs::path file = folder.path / "report.html";
  std::ofstream(file) << "old";
  write_html_report(file.string(), report());
  CHECK(text_of(file) == html_text(report()));
  CHECK(folder.files() == 1);
}

TEST_CASE("where writing fails, what was there stays and no half file is left", "[html]") {
  const Folder folder;
  const fs::path file = folder.path / "report.html";
  std::ofstream(file) << "old";
  HtmlReport broken = report();
  broken.answer = "{";
  CHECK_THROWS(write_html_report(file.string(), broken));
  CHECK(text_of(file) == "old");
  CHECK(folder.files() == 1);
}

TEST_CASE("what is not whole goes when a signal ends the program, what is whole stays", "[html]") {
  const Folder folder;
  write_file((folder.path / "whole.json").string(), "{}");
  const auto plain = open_output((folder.path / "plain.json").string()),
             packed = open_output((folder.path / "packed.json.gz").string());
  plain->write("half"), packed->write("half");
  CHECK(folder.files() == 3);
  remove_drafts();
  CHECK(folder.files() == 1);
  CHECK(text_of(folder.path / "whole.json") == "{}");
}

TEST_CASE("a full disk is an error that names the file", "[html]") {
  if (!fs::exists("/dev/full")) return;
  try {
    write_html_report("/dev/full", report());
    FAIL("written to a full disk");
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::check_failed);
    CHECK(e.where == "/dev/full");
  }
}

TEST_CASE("a path that cannot be is refused before the work", "[html]") {
  const Folder folder;
  CHECK_THROWS_AS(check_output_path((folder.path / "none" / "report.html").string()), Error);
  CHECK_THROWS_AS(check_output_path(folder.path.string()), Error);
  // A longer name than any system takes.
  CHECK_THROWS_AS(check_output_path((folder.path / std::string(5000, 'a')).string()), Error);
  CHECK_NOTHROW(check_output_path((folder.path / "report.html").string()));
  CHECK(folder.files() == 0);
}
