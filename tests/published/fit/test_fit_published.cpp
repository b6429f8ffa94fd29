// The shipped constants can be made again from the fit files, and from nothing else.

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/ranges.h>

#include "core/price/kernels/kernel.hpp"
#include "tests/published/fit/fit_profiles.hpp"
#include "tests/published/gpus.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;
namespace fs = std::filesystem;

namespace {

const fs::path kRoot = rehearse::testing::source_path("");
const fs::path kPublished = kRoot / "tests/published";

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void check_same(const KernelGroups& a, const KernelGroups& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, group] : a) {
    INFO(name);
    const auto& other = b.at(name);
    CHECK(group.formula == other.formula);
    REQUIRE(group.constants.size() == other.constants.size());
    for (const auto& [key, constant] : group.constants) {
      INFO(key);
      CHECK(constant.value == Approx(other.constants.at(key).value).epsilon(1e-6));
      CHECK(constant.rows == other.constants.at(key).rows);
    }
  }
}

// "iteration_time_s": 1.42 -> twice that, in a text that stays JSON.
std::string doubled_times(const std::string& json) {
  const std::string key = "\"iteration_time_s\": ";
  std::string out;
  std::size_t from = 0;
  for (std::size_t at = json.find(key); at != std::string::npos; at = json.find(key, from)) {
    const std::size_t value = at + key.size();
    std::size_t length = 0;
    const double seconds = std::stod(json.substr(value, 32), &length);
    out += json.substr(from, value - from) + std::to_string(2 * seconds);
    from = value + length;
  }
  return out + json.substr(from);
}

/// Seconds of a square product of 4,096 on the GPU that most rows of the profile's generation were measured on.
double time_of_a_product(const CalibrationProfile& profile) {
  const CalibrationProfile fallback =
      parse_calibration(text_of(kRoot / "topologies/calibration/fallback.json"), "fallback.json");
  const GpuSpec gpu = published::gpu(profile.generation == "ampere"   ? "a100_sxm4_80"
                                     : profile.generation == "hopper" ? "h100_sxm5_80"
                                                                      : "b200_sxm");
  return KernelModel(gpu, resolve_calibration(fallback, &profile, gpu))
      .price(make_gemm({1, 4096, 4096, 4096}, DType::bf16, DType::bf16, false))
      .time.value();
}

const FitReport& rebuilt() {
  static const FitReport report = [] {
    TableReader reader(kPublished / "data");
    return fit_profiles(reader, published::gpu);
  }();
  return report;
}

}  // namespace

TEST_CASE("the shipped constants are those that the fit files give") {
  for (const auto& profile : rebuilt().profiles) {
    INFO(profile.generation);
    const fs::path file = kRoot / "topologies/calibration" / (profile.generation + ".json");
    const auto shipped = parse_calibration(text_of(file), file.string());
    check_same(profile.groups, shipped.groups);
    REQUIRE(profile.gpus.size() == shipped.gpus.size());
    for (const auto& [gpu, groups] : profile.gpus) check_same(groups, shipped.gpus.at(gpu));
    CHECK(profile.fitted_on == shipped.fitted_on);
  }
}

TEST_CASE("no row of Table 5 and no file that holds it was read") {
  const auto& reads = rebuilt().reads;
  REQUIRE(reads.size() >= 8);
  for (const auto& read : reads) {
    INFO(read.file);
    CHECK(read.file.find("korthikanti") == std::string::npos);
    CHECK(text_of(kPublished / "data" / read.file).find("_t5_") == std::string::npos);
    CHECK_FALSE(read.rows.empty());
    for (const auto& row : read.rows) {
      CHECK(row.find("_t5_") == std::string::npos);
      CHECK(row.find("dp8") == std::string::npos);
    }
  }
}

TEST_CASE("doubling every time of Table 5 moves no constant") {
  const fs::path copy = fs::temp_directory_path() / "rehearse_published_fit";
  fs::remove_all(copy);
  fs::copy(kPublished, copy, fs::copy_options::recursive);
  const std::string original = text_of(copy / "korthikanti_table5.json");
  const std::string poisoned = doubled_times(original);
  REQUIRE(poisoned != original);
  for (const char* place : {"korthikanti_table5.json", "data/korthikanti_table5.json"}) {
    fs::remove(copy / place);
    std::ofstream(copy / place, std::ios::binary) << poisoned;
  }
  TableReader reader(copy / "data");
  const auto report = fit_profiles(reader, published::gpu);
  REQUIRE(report.profiles.size() == rebuilt().profiles.size());
  for (std::size_t i = 0; i < report.profiles.size(); ++i)
    CHECK(to_json(report.profiles[i]) == to_json(rebuilt().profiles[i]));
  fs::remove_all(copy);
}

TEST_CASE("a fit does see its own rows: where products took a tenth longer, so does a priced one") {
  const fs::path copy = fs::temp_directory_path() / "rehearse_published_fit_rows";
  fs::remove_all(copy);
  fs::copy(kPublished / "data", copy, fs::copy_options::recursive);
  // The twelfth column is the time; a thirteenth is what of it is the host's.
  const auto slower = [](const std::string& row) {
    std::vector<std::string> fields;
    std::istringstream in(row);
    for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
    const double host = fields.size() > 12 ? std::stod(fields[12]) : 0;
    fields[11] = std::to_string(1.1 * (std::stod(fields[11]) - host) + host);
    return fmt::format("{}", fmt::join(fields, ","));
  };
  for (const char* file : {"gemm_by_shape.csv", "gemm_sweeps.csv"}) {
    std::istringstream in(text_of(copy / file));
    fs::remove(copy / file);
    std::ofstream out(copy / file, std::ios::binary);
    std::string line;
    for (bool header = true; std::getline(in, line); header = false) out << (header ? line : slower(line)) << '\n';
  }
  TableReader reader(copy);
  const auto report = fit_profiles(reader, published::gpu);
  int fitted = 0;
  for (std::size_t i = 0; i < report.profiles.size(); ++i) {
    const std::string& generation = report.profiles[i].generation;
    if (generation != "ampere" && generation != "hopper" && generation != "blackwell") continue;
    ++fitted;
    INFO(generation);
    CHECK(time_of_a_product(report.profiles[i]) / time_of_a_product(rebuilt().profiles[i]) ==
          Approx(1.1).epsilon(0.03));
  }
  CHECK(fitted == 3);
  fs::remove_all(copy);
}
