#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/price/kernel_tables.hpp"
#include "tests/published/fit/fit.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/price/support.hpp"

using namespace cost_test;
using enum rehearse::GemmParameter;

namespace {

const GemmRates kRates{FlopsPerSecond{100e12}, BytesPerSecond{1e12}, 100};
const GemmConstants kTruth{GemmFormula::soft_roofline, 0.72, 0.81, Seconds{4.5e-6}, 1.6, 0, 0, 0, 1};

std::vector<MeasuredGemm> synthetic_rows() {
  std::vector<MeasuredGemm> rows;
  for (double m : {16, 64, 256, 1024, 4096, 16384})
    for (double n : {1024, 4096, 12288})
      for (double k : {512, 2048, 8192}) {
        MeasuredGemm row{"row", {1, m, n, k}, {}, {}, 1, kRates};
        row.time = gemm_time(row.shape, row.storage, kTruth, kRates).total;
        rows.push_back(row);
      }
  return rows;
}

GemmFitOptions four_free() {
  GemmFitOptions o;
  o.start = {GemmFormula::soft_roofline, 0.5, 0.6, Seconds{1e-6}, 2.5, 0, 0, 0, 1};
  o.free = {efficiency, bandwidth_fraction, fixed, overlap_power};
  return o;
}

std::string error_place(const std::string& csv) {
  const auto dir = std::filesystem::temp_directory_path() / "rehearse_cost_fit";
  std::filesystem::create_directories(dir);
  std::ofstream(dir / "rows.csv") << csv;
  TableReader reader(dir);
  try {
    static_cast<void>(read_gemms(reader, "rows.csv"));
  } catch (const Error& e) {
    return e.where;
  }
  return "no error";
}

}  // namespace

TEST_CASE("the simplex finds the bottom of a curved valley") {
  const auto rosenbrock = [](std::span<const double> x) {
    return std::pow(1 - x[0], 2) + 100 * std::pow(x[1] - x[0] * x[0], 2);
  };
  const auto best = minimise(rosenbrock, {-1.2, 1});
  CHECK(best.x[0] == Approx(1).epsilon(1e-6));
  CHECK(best.x[1] == Approx(1).epsilon(1e-6));
  CHECK(minimise(rosenbrock, {-1.2, 1}).x == best.x);
}

TEST_CASE("soft L1 is a square for small errors and a line for large ones") {
  CHECK(soft_l1(0.001, 0.1) == Approx(1e-6).epsilon(1e-3));
  CHECK(soft_l1(20, 0.1) / soft_l1(10, 0.1) == Approx(2).epsilon(0.02));
  CHECK(soft_l1(-0.3, 0.1) == soft_l1(0.3, 0.1));
}

TEST_CASE("a fit finds the constants that made the times") {
  const auto rows = synthetic_rows();
  const auto fit = fit_gemm(rows, four_free());
  for (auto p : {efficiency, bandwidth_fraction, fixed, overlap_power})
    CHECK(get(fit.constants, p) == Approx(get(kTruth, p)).epsilon(1e-4));
  CHECK(gemm_errors(rows, fit.constants).p90 < 1e-4);
}

TEST_CASE("a few throttled rows do not drag the fit along") {
  auto rows = synthetic_rows();
  for (std::size_t i = 4; i < rows.size(); i += 10) rows[i].time *= 3;
  const auto fit = fit_gemm(rows, four_free());
  CHECK(fit.constants.efficiency == Approx(kTruth.efficiency).epsilon(0.03));
}

TEST_CASE("sensitivities say what a constant decides: all shares of time add up") {
  const auto fit = fit_gemm(synthetic_rows(), four_free());
  const auto at = [&](GemmParameter p) { return nth(fit.sensitivity, p); };
  // time is homogeneous of degree 1 in 1/e, 1/f and t0
  CHECK(-at(efficiency) - at(bandwidth_fraction) + at(fixed) == Approx(1).epsilon(0.02));
  CHECK(at(tile_penalty) == 0);
}

TEST_CASE("a fit refuses fewer rows than constants and rows without a time") {
  auto rows = synthetic_rows();
  CHECK_THROWS_AS(fit_gemm(std::span(rows).first(3), four_free()), Error);
  rows[5].time = Seconds{};
  CHECK_THROWS_AS(fit_gemm(rows, four_free()), Error);
}

TEST_CASE("error figures: median, ninetieth percentile, bias") {
  const std::vector<double> predicted{110, 90, 100, 130, 100}, measured(5, 100.0);
  const auto e = summarise_errors(predicted, measured);
  CHECK(e.rows == 5);
  CHECK(e.median == Approx(0.1));
  CHECK(e.p90 == Approx(0.22));
  CHECK(e.bias == Approx(0).margin(1e-12));
}

TEST_CASE("measurement files are read strictly and every read is remembered") {
  const std::string header =
      "gpu,source,operator,batch,m,n,k,in_bytes_per_element,out_bytes_per_element,accumulate,layout,time_us\n";
  CHECK(error_place(header + "g,s,o,1,2,3,4,2,2,0,TN,5.5\n") == "no error");
  CHECK(error_place(header + "g,s,o,1,2,3,4,2,2,0,TN\n") == "rows.csv:2");
  CHECK(error_place(header + "g,s,o,1,2,x,4,2,2,0,TN,5.5\n") == "rows.csv:2");
  CHECK(error_place(header + "g,s,o,1,2,3,4,2,2,0,TN,nan\n") == "rows.csv:2");
  CHECK(error_place("gpu,source\ng,s\n") == "rows.csv:2");
  const std::string with_host = header.substr(0, header.size() - 1) + ",host_us\n";
  CHECK(error_place(with_host + "g,s,o,1,2,3,4,2,2,0,TN,5.5,2.5\n") == "no error");
  CHECK(error_place(with_host + "g,s,o,1,2,3,4,2,2,0,TN,5.5,5.5\n") == "rows.csv:2");
  TableReader reader(std::filesystem::temp_directory_path() / "rehearse_cost_fit");
  CHECK_THROWS_AS(reader.use("rows.csv", "rows.csv:2"), Error);
  CHECK_THROWS_AS(reader.text("absent.csv"), Error);
  static_cast<void>(reader.text("rows.csv"));
  reader.use("rows.csv", "rows.csv:2");
  REQUIRE(reader.reads().size() == 1);
  CHECK(reader.reads()[0].rows.contains("rows.csv:2"));
}
