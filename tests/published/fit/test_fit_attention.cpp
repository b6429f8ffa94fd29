#include "tests/published/fit/fit_attention.hpp"

#include "core/base/error.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

const GemmRates kSmall{FlopsPerSecond{100e12}, BytesPerSecond{1e12}, 100},
    kLarge{FlopsPerSecond{2e15}, BytesPerSecond{8e12}, 148};

/// What a kernel with these constants takes.
MeasuredAttention measured(const std::string& group, const std::string& start, const AttentionShape& shape, bool both,
                           const FlashConstants& truth, const GemmRates& rates) {
  MeasuredAttention a{"row", group, start, "all", shape, both, {}, rates};
  a.time = flash_time(shape, 2, false, truth, rates).total;
  if (both) a.time += flash_time(shape, 2, true, truth, rates).total;
  return a;
}

std::vector<MeasuredAttention> one_pass_rows(const std::string& group, const std::string& start,
                                             const FlashConstants& truth) {
  std::vector<MeasuredAttention> rows;
  for (double d : {64, 128})
    for (double s : {512, 2048, 16384})
      for (bool masked : {false, true})
        rows.push_back(measured(group, start, {4, 16, 16, s, s, d, masked}, false, truth, kSmall));
  return rows;
}

FlashConstants truth(double start, double efficiency) {
  FlashConstants c;
  c.efficiency = {{64, efficiency - 0.1}, {128, efficiency}};
  c.backward_ratio = 0.87;
  c.start_keys = start;
  c.diagonal_keys = 200;
  return c;
}

}  // namespace

TEST_CASE(
    "flash constants come back from times they made: a start for all that share it, one diagonal, efficiencies per "
    "group") {
  std::vector<MeasuredAttention> rows = one_pass_rows("new chip", "new", truth(150, 0.65));
  for (const MeasuredAttention& a : one_pass_rows("old chip", "old", truth(60, 0.5))) rows.push_back(a);
  for (const MeasuredAttention& a : one_pass_rows("new chip 2", "new", truth(150, 0.4))) rows.push_back(a);
  FlashConstants given;
  given.backward_ratio = 0.87;
  const FlashFit fit = fit_flash(rows, {{"new chip", given}, {"old chip", given}, {"new chip 2", given}});
  CHECK(fit.rows_of_start == std::map<std::string, int>{{"new", 24}, {"old", 12}});
  for (const auto& [group, start, efficiency] :
       {std::tuple{"new chip", 150.0, 0.65}, {"old chip", 60.0, 0.5}, {"new chip 2", 150.0, 0.4}}) {
    INFO(group);
    const FlashConstants& c = fit.groups.at(group);
    CHECK(c.start_keys == Approx(start).epsilon(1e-3));
    CHECK(c.diagonal_keys == Approx(200).epsilon(1e-3));
    CHECK(c.efficiency.at(128) == Approx(efficiency).epsilon(1e-3));
    CHECK(c.long_slowdown == 0);
  }
}

TEST_CASE("a ratio of backward passes that nobody gives is fitted by head dimension") {
  FlashConstants truth;
  truth.efficiency = {{128, 0.65}, {160, 0.7}};
  truth.backward_ratios = {{128, 0.8}, {160, 0.65}};
  truth.start_keys = truth.start_keys_backward = 250;
  truth.diagonal_keys = 300;
  std::vector<MeasuredAttention> rows;
  for (double d : {128, 160})
    for (double s : {1024, 4096, 16384})
      for (bool masked : {false, true})
        for (bool both : {false, true})
          rows.push_back(measured("toy", "toy", {2, 64, 64, s, s, d, masked}, both, truth, kLarge));
  FlashConstants given;
  given.backward_ratio = 0;
  const auto fit = fit_flash(rows, {{"toy", given}}).groups.at("toy");
  for (const int d : {128, 160}) {
    CHECK(fit.efficiency.at(d) == Approx(truth.efficiency.at(d)).epsilon(2e-3));
    CHECK(fit.backward_ratios.at(d) == Approx(truth.backward_ratios.at(d)).epsilon(5e-3));
  }
}

TEST_CASE("what slows long kernels comes back where it is asked for") {
  FlashConstants truth;
  truth.efficiency = {{128, 0.7}};
  truth.backward_ratios = {{128, 0.8}};
  truth.start_keys = truth.start_keys_backward = 400;
  truth.diagonal_keys = 300;
  truth.long_slowdown = 0.22;
  truth.long_after = Seconds{0.09};
  std::vector<MeasuredAttention> rows;
  for (double s : {1024, 4096, 16384, 65536, 131072})
    for (bool masked : {false, true})
      for (bool both : {false, true})
        rows.push_back(measured("toy", "toy", {1, 128, 128, s, s, 128, masked}, both, truth, kLarge));
  FlashConstants given;
  given.backward_ratio = 0;
  const auto fit = fit_flash(rows, {{"toy", given}}, {.slowdown = true}).groups.at("toy");
  CHECK(fit.start_keys_backward == Approx(400).epsilon(0.02));
  CHECK(fit.long_slowdown == Approx(0.22).epsilon(0.02));
  CHECK(fit.long_after.value() == Approx(0.09).epsilon(0.05));
}

TEST_CASE("a fit of attention refuses no rows and a group of which nothing is given") {
  CHECK_THROWS_AS(fit_flash({}, {}), Error);
  CHECK_THROWS_AS(fit_flash(one_pass_rows("a", "a", truth(100, 0.5)), {{"b", {}}}), Error);
}
