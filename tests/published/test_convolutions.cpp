// Convolutions against measurements: layers, of which every second one gave constants, and images per second of whole
// networks on K80, P100, V100 and A100, of which K80's alone gave a constant, a level for want of layers.
// REHEARSE_VERBOSE=1 prints every network's row.

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

/// Seconds of all passes of the layers that both GPUs ran in fp32, of the first over those of the second.
double ratio_of_sums(const std::vector<ConvolutionRow>& rows, const std::string& first, const std::string& second) {
  std::map<std::pair<std::string, ConvolutionPass>, double> of_second;
  for (const ConvolutionRow& row : rows)
    if (row.gpu == second && row.type == DType::fp32) of_second[{row.layer, row.shape.pass}] = row.time.value();
  double above = 0, below = 0;
  for (const ConvolutionRow& row : rows) {
    const auto at = of_second.find({row.layer, row.shape.pass});
    if (row.gpu != first || row.type != DType::fp32 || at == of_second.end()) continue;
    above += row.time.value(), below += at->second;
  }
  return above / below;
}

/// How much longer layers take with cuDNN 5 than with cuDNN 6: on one chip, TITAN X (Pascal) against GTX 1080 Ti, at
/// one peak.
double older_library(const std::vector<ConvolutionRow>& rows) {
  const auto peak = [](const char* gpu) { return catalogue().gpu(gpu)->peak(DType::fp32); };
  return ratio_of_sums(rows, "titan_x_pascal", "gtx_1080_ti") * (peak("titan_x_pascal") / peak("gtx_1080_ti"));
}

std::vector<ConvolutionRow> layers() {
  TableReader reader(kSource + "/tests/published/data");
  return read_convolutions(reader, "convolutions_by_layer.csv");
}

double kepler_error(double level) {
  double sum = 0;
  int n = 0;
  for (const CnnJob& job : jobs())
    if (job.row.generation == "kepler" && job.row.fitted()) {
      sum += std::abs(std::log(predict(job, level) / job.row.images_per_s));
      ++n;
    }
  return sum / n;
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
  CHECK(spread(errors["kepler"]).median <= 0.12);
  CHECK(spread(errors["volta"]).median <= 0.05);
  // P100's rows are TensorFlow 1.1's, built with cuDNN 5.1; the layers that gave Pascal's constants ran on 6.
  std::vector<double> as_older;
  const double older = older_library(layers());
  for (const double e : errors["pascal"]) as_older.push_back((1 + e) / older - 1);
  print(fmt::format("pascal, layers {:.2f} times as long", older), spread(as_older));
  CHECK(spread(as_older).median <= 0.12);
}

TEST_CASE("the level of K80, of which no layer was measured, stands where half of its steps put it") {
  const double here = kepler_error(1);
  for (const double level : {0.8, 0.9, 1.1, 1.25}) {
    INFO(level << ": " << kepler_error(level) << " against " << here);
    CHECK(kepler_error(level) > here - 0.005);
  }
}

TEST_CASE("layers that no constant was fitted on") {
  const auto rows = layers();
  for (const char* id : {"v100_sxm2_16", "t4", "p100_sxm2_16", "gtx_1080_ti", "titan_x_maxwell", "m40"})
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
