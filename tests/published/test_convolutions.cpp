// Convolutions against measurements: layers, of which every second one gave constants, and images per second of whole
// networks on K80, P100, V100 and A100, which gave K80's level alone. REHEARSE_VERBOSE=1 prints every network's row.

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/price/kernel_tables.hpp"
#include "tests/published/cnn_rows.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

const std::vector<CnnJob>& jobs() {
  static const std::vector<CnnJob> made = make_jobs(read_cnn_rows().rows);
  return made;
}

double error(const CnnJob& job) { return predict(job) / job.row.images_per_s - 1; }

struct Spread {
  std::size_t rows = 0;
  double median = 0, p90 = 0;
};

Spread spread(std::vector<double> errors) {
  for (double& e : errors) e = std::abs(e);
  std::sort(errors.begin(), errors.end());
  if (errors.empty()) return {};
  const auto at = [&](double q) {
    return errors[static_cast<std::size_t>(q * static_cast<double>(errors.size() - 1))];
  };
  return {errors.size(), at(0.5), at(0.9)};
}

void print(const std::string& what, const Spread& s) {
  fmt::print("{:<40} {:>4} rows  median {:>5.1f} %  90th percentile {:>5.1f} %\n", what, s.rows, 100 * s.median,
             100 * s.p90);
}

}  // namespace

TEST_CASE("images per second") {
  const CnnRows read = read_cnn_rows();
  std::map<std::string, std::vector<double>> errors;
  for (const CnnJob& job : jobs()) {
    const double e = error(job);
    errors["all"].push_back(e);
    errors[job.row.generation].push_back(e);
    if (std::getenv("REHEARSE_VERBOSE") != nullptr)
      fmt::print("{:>8.1f} images/s measured {:>8.1f} predicted {:>+6.1f} %  {}\n", job.row.images_per_s,
                 job.row.images_per_s * (1 + e), 100 * e, job.row.id);
  }
  for (const auto& [what, list] : errors) print(what, spread(list));
  for (const auto& [why, count] : read.skipped) fmt::print("skipped {:>3}: {}\n", count, why);
  int skipped = 0;
  for (const auto& [why, count] : read.skipped) skipped += count;
  CHECK(read.rows.size() + static_cast<std::size_t>(skipped) == 139);
  CHECK(read.rows.size() >= 90);
  CHECK(spread(errors["kepler"]).median <= 0.12);  // Half of its rows gave the level of its efficiencies.
  CHECK(spread(errors["pascal"]).median <= 0.25);
  CHECK(spread(errors["volta"]).median <= 0.05);
}

TEST_CASE("layers that no constant was fitted on") {
  TableReader reader(kSource + "/tests/published/data");
  const auto rows = read_convolutions(reader, "convolutions_by_layer.csv");
  for (const char* id : {"v100_sxm2_16", "t4", "p100_sxm2_16", "titan_x_pascal", "titan_x_maxwell"})
    for (const DType type : {DType::fp32, DType::fp16}) {
      const auto gpu = catalogue().gpu(id);
      if (type == DType::fp16 && gpu->compute_capability < 70) continue;  // Storage in 16 bits: nothing is fitted.
      const KernelModel model(*gpu, load_calibration(kSource + "/topologies/calibration", *gpu, {.bursts = true}));
      for (const auto& [pass, name] :
           {std::pair{ConvolutionPass::forward, "forward"}, std::pair{ConvolutionPass::input_grad, "input gradient"},
            std::pair{ConvolutionPass::weight_grad, "weight gradient"}}) {
        std::vector<double> errors;
        double predicted = 0, measured = 0;
        for (const ConvolutionRow& row : rows) {
          if (row.gpu != id || row.type != type || row.shape.pass != pass || in_fit_half(row)) continue;
          const double t = model.price(kernel_of(row)).time.value();
          errors.push_back(t / row.time.value() - 1);
          predicted += t, measured += row.time.value();
        }
        const std::string what = fmt::format("{} {} {}", id, type == DType::fp32 ? "fp32" : "fp16", name);
        print(fmt::format("{}, sum {:+.1f} %", what, 100 * (predicted / measured - 1)), spread(errors));
        INFO(what);
        CHECK(errors.size() >= 30);
        CHECK(spread(errors).median <= 0.25);
      }
    }
}
