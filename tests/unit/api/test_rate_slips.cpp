// Rates that look like a slip between bits and bytes are warned of, and no others.

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include <fmt/format.h>

#include "core/api/session/rate_slips.hpp"
#include "core/api/session/session.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/api/support.hpp"

using namespace rehearse;

namespace {

BytesPerSecond gigabits(double rate) { return BytesPerSecond{rate * 1e9 / 8}; }

/// A shipped file with one rate in place of another, in a folder that goes with it.
class ChangedFile {
 public:
  ChangedFile(const std::string& shipped, const std::string& from, const std::string& to)
      : folder_(std::filesystem::temp_directory_path() / fmt::format("rehearse_rates_{}", ++count())) {
    std::stringstream text;
    text << std::ifstream(testing::source_path("topologies/" + shipped)).rdbuf();
    const std::string changed = std::regex_replace(text.str(), std::regex("\"" + from + "\""), "\"" + to + "\"");
    REQUIRE((changed != text.str() || from == to));
    std::filesystem::create_directories(folder_);
    std::ofstream(path()) << changed;
  }
  ~ChangedFile() { std::filesystem::remove_all(folder_); }
  ChangedFile(const ChangedFile&) = delete;
  ChangedFile& operator=(const ChangedFile&) = delete;
  [[nodiscard]] std::string path() const { return (folder_ / "mine.json").string(); }

 private:
  static int& count() {
    static int made = 0;
    return made;
  }
  std::filesystem::path folder_;
};

std::vector<std::string> warnings_of(const std::string& machine, const std::string& network,
                                     const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides{"cluster.machine=" + machine, "cluster.network=" + network};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return open_session(testing::source_path("scenarios/llama3_70b_h100_64.json"), overrides).scenario.warnings;
}

}  // namespace

TEST_CASE("a rate is doubted where an eighth or eight times of it is known, and it is not", "[api]") {
  const std::vector<BytesPerSecond> known{gigabits(100), gigabits(200), gigabits(400)};
  CHECK(meant_rate(BytesPerSecond{400e9}, known) == gigabits(400));
  CHECK(meant_rate(BytesPerSecond{200e9}, known) == gigabits(200));
  CHECK(meant_rate(gigabits(50), known) == gigabits(400));
  CHECK(meant_rate(gigabits(25), known) == gigabits(200));
  for (const double fine : {100.0, 200.0, 400.0, 150.0, 404.0, 6400.0})
    CHECK(meant_rate(gigabits(fine), known) == BytesPerSecond{});
  CHECK(meant_rate(gigabits(400), {}) == BytesPerSecond{});
}

TEST_CASE("400GB/s for a NIC or a port draws a warning that names the rate that is known", "[api]") {
  const ChangedFile nic("machines/dgx_h100.json", "400Gb/s", "400GB/s"),
      port("networks/rail_ndr.json", "400Gb/s", "400GB/s");
  const auto of_nic = warnings_of(nic.path(), "rail_ndr"), of_port = warnings_of("dgx_h100", port.path());
  for (const auto& warnings : {of_nic, of_port}) {
    REQUIRE(warnings.size() == 1);
    INFO(warnings.front());
    CHECK(warnings.front().find("NIC or switch port of 400 GB/s (3200 Gb/s)") != std::string::npos);
    CHECK(warnings.front().find("50 GB/s (400 Gb/s) is known") != std::string::npos);
  }
}

TEST_CASE("what the catalogue has draws no warning, in its own words or in others", "[api]") {
  const ChangedFile same("machines/dgx_h100.json", "400Gb/s", "50GB/s"),
      slower("machines/dgx_h100.json", "400Gb/s", "200Gb/s");
  CHECK(warnings_of("dgx_h100", "rail_ndr").empty());
  CHECK(warnings_of(same.path(), "rail_ndr").empty());
  CHECK(warnings_of(slower.path(), "rail_ndr").empty());
}

TEST_CASE("storage faster than a node's NICs is doubted where an eighth of it is not", "[api]") {
  CHECK(warnings_of("dgx_h100", "rail_ndr", {"input.storage=400GB/s"}).empty());
  const auto over = warnings_of("dgx_h100", "rail_ndr", {"input.storage=800GB/s"});
  REQUIRE(over.size() == 1);
  CHECK(over.front().find("input.storage") != std::string::npos);
}
