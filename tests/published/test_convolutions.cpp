// Images per second of convolutional networks on K80, P100, V100 and A100 against measurements. The constants are
// efficiencies of kernel classes per GPU generation. On Kepler and Pascal they are fitted on half the rows; on Volta on
// the two single-GPU rows, on Ampere on its one. REHEARSE_VERBOSE=1 prints every row.

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "core/base/index.hpp"
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

/// Volta's level is fitted on single-GPU rows of the 16 GB machine, Ampere's on its only row.
bool fitted(const CnnRow& row) {
  if (row.generation == "volta") return row.gpus == 1 && row.machine == "dgx1v_16gb";
  return row.generation == "ampere" || row.fitted();
}

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

double mean_log_error(const std::string& generation, const Factors& factors) {
  double sum = 0;
  int n = 0;
  for (const CnnJob& job : jobs())
    if (job.row.generation == generation && fitted(job.row)) {
      sum += std::abs(std::log(predict(job, factors) / job.row.images_per_s));
      ++n;
    }
  return sum / n;
}

}  // namespace

TEST_CASE("images per second, rows that constants were not fitted on") {
  const CnnRows read = read_cnn_rows();
  std::map<std::string, std::vector<double>> errors;
  for (const CnnJob& job : jobs()) {
    const double e = error(job);
    errors[fitted(job.row) ? "fitted" : "held out"].push_back(e);
    errors[fmt::format("{}, {}", job.row.generation, fitted(job.row) ? "fitted" : "held out")].push_back(e);
    if (std::getenv("REHEARSE_VERBOSE") != nullptr)
      fmt::print("{:>8.1f} images/s measured {:>8.1f} predicted {:>+6.1f} %  {} {}\n", job.row.images_per_s,
                 job.row.images_per_s * (1 + e), 100 * e, fitted(job.row) ? "fitted  " : "held out", job.row.id);
  }
  for (const auto& [what, list] : errors) print(what, spread(list));
  for (const auto& [why, count] : read.skipped) fmt::print("skipped {:>3}: {}\n", count, why);
  int skipped = 0;
  for (const auto& [why, count] : read.skipped) skipped += count;
  CHECK(read.rows.size() + static_cast<std::size_t>(skipped) == 139);
  CHECK(read.rows.size() >= 90);
  CHECK(spread(errors["held out"]).median <= 0.12);
  CHECK(spread(errors["fitted"]).median <= 0.12);
}

TEST_CASE("fitted efficiencies stand where their rows put them") {
  for (const char* generation : {"kepler", "pascal"}) {
    const double here = mean_log_error(generation, {});
    for (const char* group : {"conv_pointwise", "conv_dense", "conv_spatial"})
      for (const double factor : {0.8, 1.25}) {
        INFO(generation << " " << group << " times " << factor << ": " << mean_log_error(generation, {{group, factor}})
                        << " against " << here);
        CHECK(mean_log_error(generation, {{group, factor}}) > here - 0.005);
      }
  }
}
