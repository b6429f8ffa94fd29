// Pages that the program writes, in a browser: they are drawn, nothing complains, and the numbers on them are those of
// the JSON.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include <unistd.h>
#include <nlohmann/json.hpp>

#include "core/report/html/html_report.hpp"
#include "tests/report_html/shown_page.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

using namespace rehearse;
namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t kMostBytes = 5'000'000;

#define NEEDS_A_BROWSER()                                                          \
  if (!test::has_browser()) REHEARSE_SKIP("no browser: apt-get install chromium"); \
  if (!has_pictures()) REHEARSE_SKIP("this build has no pictures: ./bootstrap install-deps")

/// What a command shows at the least, and words that stand on its page.
struct Example {
  const char* what;
  const char* command;
  int pictures;
  std::size_t figures;
  std::vector<const char*> says{};
  int exit = 0;
};
const std::vector<Example> kExamples{
    {"experts", "simulate scenarios/mixtral_8x7b_h100_64.json", 5, 60},
    {"a CNN", "simulate scenarios/resnet50_v100_8.json", 5, 30},
    {"machines of two kinds", "simulate scenarios/mixed_a100_v100.json", 5, 40},
    {"a plan that does not fit",
     "simulate scenarios/gpt3_175b_a100_64.json --set strategy.recompute=none",
     1,
     30,
     {},
     3},
    {"a closed form without a pipeline", "estimate scenarios/llama3_70b_h100_64.json", 2, 40},
    {"memory alone", "memory scenarios/llama3_70b_h100_64.json", 1, 30},
    {"a run on this machine: loss, step by step, and the pipeline of the last one",
     "run scenarios/tiny_gpt2.json --device cpu --ranks 2 --steps 3",
     3,
     12,
     {"The last step took"}},
    {"lesson: plans side by side", "lesson naive_pipeline", 3, 8},
    {"replay: predictions beside measurements", "replay goyal_p100", 2, 8},
    {"search: the front, the best plans and where their steps go",
     "search scenarios/llama3_8b_h100_8.json --fix tp=8 --simulate 2",
     2,
     20,
     {"Time against memory"}},
    {"compare: where each step goes, and what makes the difference",
     "compare scenarios/llama3_8b_h100_8.json scenarios/llama3_8b_h100_8.json@strategy.tp=8",
     4,
     20,
     {"llama3_8b_h100_8 tp=8"}},
    {"validate: the scoreboard", "validate --measurements tests/published/data/torchtitan.json", 2, 20},
    {"curves of a collective", "collectives --cluster dgx_h100 --nodes 4 --network rail_ndr -b 1K -e 4G -f 16", 2, 10},
    {"how a machine is wired", "topology show dgx_a100_80gb", 1, 3},
    {"the buyer's question: cost and days with their ranges", "plan scenarios/plans/llama3_8b_two_weeks.json", 3, 10},
    {"a shared cluster: where the hours went, its nodes and its queues",
     "fleet scenarios/fleets/two_teams.json",
     4,
     60,
     {"Who waits for whom?", "Queue research"}},
    {"two policies of a shared cluster",
     "fleet scenarios/fleets/two_teams.json --against policy.quota=borrowing",
     8,
     100,
     {"policy.quota=borrowing"}},
    {"sweep over machines: the pace beside growth in proportion",
     "sweep scenarios/llama3_70b_h100_64.json --vary cluster.nodes=8,16,32",
     4,
     20,
     {"of growth in proportion (dashed)"}},
    {"sweep: curves of what varies",
     "sweep scenarios/llama3_8b_h100_8.json --vary strategy.tp=1,2,4,8 --vary strategy.microbatch=1,2", 2, 20},
    {"sweep where nothing fits: every point with its memory against the capacity",
     "sweep scenarios/gpt3_175b_a100_64.json --set strategy.recompute=none --vary strategy.microbatch=1,2,4",
     1,
     6,
     {"3 do not fit", "What this rests on"},
     3}};

constexpr const char* kLargest = "simulate scenarios/gpt3_175b_a100_1024.json";
constexpr const char* kWithoutLibrary = "without the charting library";
constexpr const char* kNoPoints = "interrupted before the first point";
constexpr const char* kOnePoint = "interrupted after a point";
constexpr const char* kNoPlans = "interrupted before the first plan";

std::string page_without_library() {
  std::string text =
      html_text({"collectives",
                 "9.9",
                 R"({"op": "all_reduce", "cluster": "a", "ranks": 8, "nodes": 1, "type": "float", "backend": "model",
       "average_busbw_GBps": 1.5,
    "rows": [{"bytes": 1024, "time_us": 10, "algbw_GBps": 0.1, "busbw_GBps": 0.2, "algorithm": "Ring",
    "protocol": "LL", "channels": 1}], "rests_on": []})",
                 "",
                 {}});
  const std::size_t library = text.find("<script>/*!"), end = text.find("</script>", library);
  if (library == std::string::npos) throw std::runtime_error("the page has no charting library");
  return text.erase(library, end + 9 - library);
}

std::string interrupted_sweep(const std::string& points) {
  return html_text(
      {"sweep",
       "9.9",
       R"({"file": "a.json", "interrupted": true, "vary": {"strategy.tp": [1, 2]}, "points": [)" + points + "]}",
       "",
       {}});
}

/// Pages that no command shows, by name.
std::map<std::string, std::string> written_pages() {
  return {
      {kWithoutLibrary, page_without_library()},
      {kNoPoints, interrupted_sweep("")},
      {kOnePoint, interrupted_sweep(
                      R"({"number": 0, "values": {"strategy.tp": 2}, "memory_bytes": 2e9, "memory_capacity_bytes": 4e9,
      "fits": true, "step_time_s": 1.5, "mfu": 0.25})")},
      {kNoPlans, html_text({"search",
                            "9.9",
                            R"({"scenario": "a", "gpus": 8, "interrupted": true, "space": {"legal": 9},
       "candidates": [], "pareto": []})",
                            "",
                            {}})}};
}

/// Pages of all commands and texts by name, written and then shown at once.
class Gallery {
 public:
  struct Entry {
    int exit = 0;  ///< Of the command.
    std::uintmax_t bytes = 0;
    std::size_t shown = 0;  ///< Index into pages; no page was written where it lies outside.
  };

  Gallery() {
    try {
      fs::create_directories(folder_);
      for (const auto& [name, text] : written_pages()) {
        std::ofstream(next_file(), std::ios::binary) << text;
        add(name, 0);
      }
      run(kLargest);
      for (const Example& e : kExamples) run(e.command);
      pages_ = test::show(files_);
      fs::remove_all(folder_);
    } catch (const std::exception& e) {
      failed_ = e.what();
    }
  }

  [[nodiscard]] const std::string& failed() const { return failed_; }
  [[nodiscard]] const Entry& entry(const std::string& name) const { return entries_.at(name); }
  [[nodiscard]] const test::ShownPage& page(const std::string& name) const { return pages_.at(entry(name).shown); }

 private:
  [[nodiscard]] std::string next_file() const { return (folder_ / (std::to_string(files_.size()) + ".html")).string(); }
  void add(const std::string& name, int status) {
    const std::string file = next_file();
    const bool written = fs::exists(file);
    entries_[name] = {WEXITSTATUS(status), written ? fs::file_size(file) : 0, written ? files_.size() : SIZE_MAX};
    if (written) files_.push_back(file);
  }
  /// `rehearse WORDS --html FILE`
  void run(const std::string& words) {
    add(words, std::system(("cd '" REHEARSE_SOURCE_DIR "' && '" REHEARSE_PROGRAM "' " + words + " --html '" +
                            next_file() + "' > /dev/null 2>&1")
                               .c_str()));
  }

  fs::path folder_ = fs::temp_directory_path() / ("rehearse_pages_" + std::to_string(::getpid()));
  std::map<std::string, Entry> entries_;
  std::vector<std::string> files_;
  std::vector<test::ShownPage> pages_;
  std::string failed_;
};

const test::ShownPage& page_of(const std::string& name, int expected = 0) {
  static const Gallery gallery;
  INFO(name);
  REQUIRE(gallery.failed() == "");
  REQUIRE(gallery.entry(name).exit == expected);
  CHECK(gallery.entry(name).bytes < kMostBytes);
  REQUIRE(gallery.entry(name).bytes > 0);
  return gallery.page(name);
}

void check(const test::ShownPage& page, int least_pictures, std::size_t least_figures) {
  CHECK(page.complaints == "");
  CHECK(page.failed == 0);
  CHECK(page.pictures >= least_pictures);
  CHECK(page.unnamed == 0);
  for (const char* slip : {"undefined", "NaN", "Infinity", "[object"}) {
    INFO(slip);
    CHECK(page.text.find(slip) == std::string::npos);
  }
  CHECK(page.tips.size() == static_cast<std::size_t>(std::max(0, page.pictures)));
  for (const std::string& tip : page.tips) CHECK(tip != "");
  const auto data = nlohmann::json::parse(page.data);
  CHECK(page.figures.size() >= least_figures);
  for (const test::ShownFigure& f : page.figures) {
    INFO(f.path << " is shown as '" << f.text << "'");
    const double value = test::number_at(data, f.path);
    CHECK(std::atof(f.value.c_str()) == Approx(value).epsilon(1e-12));
    CHECK(test::says(f.text, value));
  }
  for (const test::ShownFigure& f : page.derived) {
    INFO(f.value << " is shown as '" << f.text << "'");
    CHECK(test::says(f.text, std::atof(f.value.c_str())));
  }
}

}  // namespace

TEST_CASE("a number says what it stands for to the digits shown, and no other", "[browser]") {
  CHECK(test::says("20.72 s", 20.7189));
  CHECK_FALSE(test::says("20.72 s", 20.7289));
  CHECK(test::says("933.5 ms", 0.93348));
  CHECK(test::says("51.2 %", 0.51234));
  CHECK_FALSE(test::says("51.2 %", 51.234));
  CHECK(test::says("151,828", 151828.3));
  CHECK(test::says("$4.1 million", 4.1e6));
}

TEST_CASE("simulate on 1,024 GPUs: pipeline, breakdown, memory twice, wires", "[browser]") {
  NEEDS_A_BROWSER();
  const test::ShownPage& page = page_of(kLargest);
  check(page, 5, 60);
  CHECK(page.title.find("1,024 GPUs") != std::string::npos);
}

TEST_CASE("without the charting library a page has its sentences and tables, and says so", "[browser]") {
  NEEDS_A_BROWSER();
  const test::ShownPage& page = page_of(kWithoutLibrary);
  check(page, 0, 4);
  CHECK(page.pictures == 0);
  CHECK(page.text.find("no pictures") != std::string::npos);
}

TEST_CASE("pages of commands that go through to their end", "[browser]") {
  NEEDS_A_BROWSER();
  for (const Example& e : kExamples) DYNAMIC_SECTION(e.what) {
      const test::ShownPage& page = page_of(e.command, e.exit);
      check(page, e.pictures, e.figures);
      CHECK(page.text.find("Interrupted") == std::string::npos);
      for (const char* words : e.says) {
        INFO(words);
        CHECK(page.text.find(words) != std::string::npos);
      }
    }
}

TEST_CASE("what was interrupted says so, with and without a result", "[browser]") {
  NEEDS_A_BROWSER();
  check(page_of(kNoPoints), 0, 0);
  check(page_of(kOnePoint), 3, 3);
  check(page_of(kNoPlans), 0, 0);
  for (const char* name : {kNoPoints, kOnePoint, kNoPlans}) {
    INFO(name);
    CHECK(page_of(name).text.find("Interrupted") != std::string::npos);
  }
  CHECK(page_of(kNoPlans).text.find("No plan that fits was found before") != std::string::npos);
}
