// The statistics behind likely ranges.

#include <cmath>
#include <random>

#include "core/base/normal.hpp"
#include "core/scoreboard/ranges/own_source.hpp"
#include "core/scoreboard/ranges/range_fit.hpp"
#include "core/scoreboard/ranges/range_judgement.hpp"
#include "core/scoreboard/ranges/student.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/scoreboard/groups.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

const EffectOptions kOneLevel{.levels = {BiasLevel::all}};
const PredictionKind kDense{"dense", "hopper", ""};

/// Of many sources, a bias of a tenth, half of the variance between sources.
ErrorOutlook usual() { return {0.1, 0, 0.04, 0, 0.04, 0, 0}; }

OwnErrors own(double mean, double deviation, int rows, const PredictionKind& kind = kDense) {
  return {{"own", kind, rows, mean, deviation}, usual()};
}

}  // namespace

TEST_CASE("quantiles of Student's t are those of its tables") {
  CHECK(student_quantile(0.9, 4) == Approx(1.533).epsilon(2e-3));
  CHECK(student_quantile(0.9, 10) == Approx(1.372).epsilon(1e-3));
  CHECK(student_quantile(0.95, 30) == Approx(1.697).epsilon(1e-3));
  CHECK(student_quantile(0.9, 1e9) == Approx(normal_quantile(0.9)));
  CHECK(normal_quantile(0.9) == Approx(1.28155).epsilon(1e-5));
  CHECK(normal_share(1.28155) == Approx(0.9).epsilon(1e-5));
}

TEST_CASE("no range has a better score than that between the true quantiles") {
  const double z = normal_quantile(0.9), best = expected_interval_score(1 - 2 * z, 1 + 2 * z, 1, 2);
  for (const double off : {-0.5, -0.1, 0.1, 0.5}) {
    CHECK(expected_interval_score(1 - 2 * z + off, 1 + 2 * z, 1, 2) > best);
    CHECK(expected_interval_score(1 - 2 * z, 1 + 2 * z + off, 1, 2) > best);
  }
  CHECK(expected_interval_score(0, 1, 3, 0) == Approx(interval_score(0, 1, 3)));
  CHECK(interval_score(0, 1, 3) == Approx(1 + 10 * 2));
}

TEST_CASE("the inverse of a matrix undoes it") {
  SymmetricMatrix m(3);
  for (std::size_t i = 0; i < 3; ++i) m.add(i, i, 2 + static_cast<double>(i));
  m.add(0, 1, 0.5);
  m.add(1, 2, -0.7);
  const std::vector<double> x{1, -2, 3}, y = m.inverse().times(m.times(x));
  for (std::size_t i = 0; i < 3; ++i) CHECK(y[i] == Approx(x[i]));
}

TEST_CASE("a source of a thousand rows counts little more than one of ten") {
  std::vector<ErrorGroup> groups{first_errors("large", 0.5, 0.1, 1000)};
  for (const char* name : {"a", "b", "c", "d"}) groups.push_back(first_errors(name, 0.0, 0.1, 10));
  const double bias = SourceEffects(groups, kOneLevel).outlook(kDense).bias;
  CHECK(bias > 0.08);
  CHECK(bias < 0.12);  // Of rows alike it would be 0.48.
}

TEST_CASE("variances and bias that sources were drawn with are found again") {
  const SourceEffects found(drawn_sources(400, 0.2, 0.1, 1), kOneLevel);
  const ErrorOutlook o = found.outlook(kDense);
  CHECK(o.bias == Approx(0.1).margin(0.03));
  CHECK(std::sqrt(o.source_variance + o.machine_variance) == Approx(0.2).epsilon(0.1));
  CHECK(std::sqrt(o.rest_variance) == Approx(0.1).epsilon(0.1));
  CHECK(o.half_width() == Approx(1.2816 * std::sqrt(0.05)).epsilon(0.08));
}

TEST_CASE("a kind of few sources is drawn towards the others, and less sure") {
  std::vector<ErrorGroup> groups = drawn_sources(30, 0.1, 0.1, 2);
  groups.push_back(first_errors("one", 0.5, 0.1, 10, {"experts", "hopper", ""}));
  const SourceEffects found(groups, {.levels = {BiasLevel::all, BiasLevel::model}});
  const ErrorOutlook dense = found.outlook(kDense), experts = found.outlook({"experts", "hopper", ""});
  CHECK(experts.bias > dense.bias + 0.03);
  CHECK(experts.bias < 0.47);
  CHECK(experts.bias_variance > 4 * dense.bias_variance);
  CHECK(found.outlook({"images", "hopper", ""}).bias_variance > dense.bias_variance);
}

TEST_CASE("uneven noise makes tails longer, and few degrees of freedom the range wider") {
  ErrorOutlook even = usual(), uneven = usual(), few = usual();
  uneven.rest_uneven = 1.5;
  CHECK(even.half_width() == Approx(normal_quantile(0.9) * std::sqrt(0.08)).epsilon(1e-3));
  CHECK(uneven.half_width() > even.half_width());
  uneven.rest_variance *= std::exp(-uneven.rest_uneven / 2);  // Now the mean over sources is that of `even`.
  CHECK(uneven.half_width() < even.half_width());             // Of the same variance, more lies far out, and near by.
  few.degrees = 5;
  CHECK(few.half_width() > even.half_width());
}

TEST_CASE("the spread of variances that sources were drawn with is found again") {
  std::mt19937 random(9);
  std::normal_distribution<double> normal;
  std::vector<ErrorGroup> groups;
  for (int i = 0; i < 3000; ++i) {
    const double deviation = 0.05 * std::exp(0.5 * normal(random));  // Its variance's logarithm has the variance 1.
    std::vector<double> errors;
    for (int row = 0; row < 9; ++row) errors.push_back(deviation * normal(random));
    groups.push_back(group_of(std::to_string(i), kDense, std::move(errors)));
  }
  const ErrorSpread& found = SourceEffects(groups, kOneLevel).spread("dense");
  CHECK(std::sqrt(found.rest.variance) == Approx(0.05).epsilon(0.08));
  CHECK(found.rest.uneven == Approx(1).epsilon(0.12));
}

TEST_CASE("a source's own noise is what its rows show, as far as they are many") {
  const RestSpread usual_rest{0.04, 1};
  const RestSpread few = usual_rest.of_source(0.0001, 1), many = usual_rest.of_source(0.01, 100);
  CHECK(usual_rest.of_source(0, 0).variance == 0.04);
  CHECK(few.variance > 0.01);
  CHECK(many.variance == Approx(0.0001).epsilon(0.15));
  CHECK(many.uneven < few.uneven);
}

TEST_CASE("a few noisy sources don't make the range of all too wide") {
  std::vector<ErrorGroup> groups = drawn_sources(32, 0.01, 0.02, 11);
  for (ErrorGroup& g : drawn_sources(8, 0.01, 0.4, 12)) {
    g.source += ", noisy";
    groups.push_back(std::move(g));
  }
  const JudgedRanges judged = judge_ranges(groups).groups.at("all");
  CHECK(judged.inside > 0.7);
  CHECK(judged.inside < 0.9);
}

TEST_CASE("variances of a kind in measured frameworks are drawn towards those of all kinds there") {
  std::vector<ErrorGroup> groups = drawn_sources(20, 0.3, 0.2, 3);
  for (const ErrorGroup& g : drawn_sources(30, 0.03, 0.05, 4, {"dense", "hopper", "megatron-core"}, false))
    groups.push_back(g);
  for (ErrorGroup& g : drawn_sources(2, 0.03, 0.05, 5, {"experts", "hopper", "megatron-core"}, false)) {
    g.source += ", experts";
    groups.push_back(std::move(g));
  }
  const RangeFit fit(groups);
  const ErrorOutlook dense = fit.outlook({"dense", "hopper", "megatron-core"});
  const ErrorOutlook experts = fit.outlook({"experts", "hopper", "megatron-core"});
  CHECK(std::sqrt(experts.source_variance) < 0.1);  // First errors of no framework have 0.3.
  CHECK(experts.source_variance > dense.source_variance);
}

TEST_CASE("a framework that was measured narrows; another is as good as none") {
  std::vector<ErrorGroup> groups = drawn_sources(20, 0.25, 0.2, 3);
  for (const ErrorGroup& g : drawn_sources(12, 0.03, 0.05, 4, {"dense", "hopper", "megatron-core"}, false))
    groups.push_back(g);
  const RangeFit fit(groups);
  const double none = fit.outlook(kDense).half_width();
  CHECK(fit.outlook({"dense", "hopper", "megatron-core"}).half_width() < 0.7 * none);
  CHECK(fit.outlook({"dense", "hopper", "another"}).half_width() == Approx(none));
}

TEST_CASE("what mechanisms were mended on is not taken for how far sources differ") {
  std::vector<ErrorGroup> groups = drawn_sources(20, 0.25, 0.2, 3);
  const double before = RangeFit(groups).outlook(kDense).half_width();
  const std::vector<ErrorGroup> seen = drawn_sources(12, 0.03, 0.05, 4, {"dense", "hopper", "megatron-core"}, false);
  groups.insert(groups.end(), seen.begin(), seen.end());
  CHECK(RangeFit(groups).outlook(kDense).half_width() == Approx(before));
  // Nor alone for jobs in the same framework: their own variance would give this.
  CHECK(RangeFit(groups).outlook({"dense", "hopper", "megatron-core"}).half_width() > 1.2816 * std::sqrt(0.0034));
}

TEST_CASE("a generation that no source measured is less sure") {
  std::vector<ErrorGroup> groups = drawn_sources(20, 0.2, 0.1, 5);
  for (ErrorGroup& g : drawn_sources(20, 0.2, 0.1, 6, {"dense", "ampere", ""})) {
    g.source += " of ampere";
    groups.push_back(g);
  }
  const RangeFit fit(groups);
  CHECK(fit.outlook({"dense", "ada", ""}).half_width() > fit.outlook(kDense).half_width());
}

TEST_CASE("doubtful errors make no range") {
  std::vector<ErrorGroup> groups = drawn_sources(10, 0.1, 0.1, 7);
  const double without = RangeFit(groups).outlook(kDense).bias;
  groups.push_back(first_errors("doubtful", 2));
  groups.back().doubtful = true;
  CHECK(RangeFit(groups).outlook(kDense).bias == without);
}

TEST_CASE("ranges hold four fifths of the steps of sources left out") {
  std::vector<ErrorGroup> groups;
  for (unsigned seed = 0; seed < 4; ++seed)
    for (ErrorGroup& g : drawn_sources(12, 0.2, 0.15, seed, {seed % 2 == 0 ? "dense" : "images", "hopper", ""})) {
      g.source += " of " + std::to_string(seed);
      groups.push_back(std::move(g));
    }
  const RangeJudgement judged = judge_ranges(groups);
  CHECK(judged.groups.at("all").sources == 48);
  for (const char* name : {"all", "dense", "images", "first errors"}) {
    INFO(name);
    CHECK(judged.groups.at(name).inside > 0.72);
    CHECK(judged.groups.at(name).inside < 0.88);
    CHECK(judged.groups.at(name).score < 1.1 * judged.groups.at(name).constant_score);
  }
}

TEST_CASE("sources known by mean and deviation are judged as normal ones") {
  std::vector<ErrorGroup> groups = drawn_sources(12, 0.2, 0.15, 8), normal = groups;
  for (ErrorGroup& g : normal) g.errors.clear();
  const double rows = judge_ranges(groups).groups.at("all").inside;
  CHECK(judge_ranges(normal).groups.at("all").inside == Approx(rows).margin(0.05));
}

TEST_CASE("own steps of one kind are weighed with what was known by their precisions") {
  // Four rows whose deviation is the root of the rest's variance: the rest stays what it was.
  const ErrorOutlook after = outlook_with_own(usual(), kDense, {own(0.5, 0.2, 5)});
  const double precision = 1 / 0.04 + 5 / 0.04;
  CHECK(after.rest_variance == Approx(0.04));
  CHECK(after.bias == Approx((0.1 / 0.04 + 5 * 0.5 / 0.04) / precision));
  CHECK(after.bias_variance == Approx(1 / precision));
  CHECK(after.source_variance == 0);
}

TEST_CASE("one step shifts and narrows, many that agree narrow more") {
  ErrorOutlook known = usual();
  known.rest_uneven = 1;
  const double before = known.half_width();
  const ErrorOutlook one = outlook_with_own(known, kDense, {{{"own", kDense, 1, 0.4, 0}, known}});
  const ErrorOutlook many = outlook_with_own(known, kDense, {{{"own", kDense, 20, 0.4, 0.02}, known}});
  CHECK(one.bias > 0.1);
  CHECK(one.half_width() < before);
  CHECK(many.bias == Approx(0.4).margin(0.02));
  CHECK(many.half_width() < 0.6 * one.half_width());
}

TEST_CASE("own steps tell most of jobs like them") {
  ErrorOutlook known = usual();
  known.bias_variance = 0.01;
  known.machine_variance = 0.01;
  const auto shift = [&](const PredictionKind& of) {
    return outlook_with_own(known, kDense, {{{"own", of, 10, 0.5, 0.1}, known}}).bias - known.bias;
  };
  CHECK(shift(kDense) > shift({"dense", "ampere", ""}));
  CHECK(shift({"dense", "ampere", ""}) > shift({"experts", "ampere", ""}));
  CHECK(shift({"experts", "ampere", ""}) > 0);
}
