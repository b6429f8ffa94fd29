#include "core/scoreboard/ranges/student.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <boost/math/distributions/students_t.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/trigamma.hpp>

namespace rehearse {

namespace {

/// Without the steps in long double that Boost takes by default, which are most of what is compiled here.
using InDoubles = boost::math::policies::policy<boost::math::policies::promote_double<false>>;

constexpr double kPenalty = 2 / (1 - kLikelyShare);

double density(double z) { return std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi); }

/// Mean of what a standard normal value is above `z`, values below counting nothing.
double mean_excess(double z) { return density(z) - z * (1 - normal_share(z)); }

}  // namespace

double normal_share(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }

double student_quantile(double p, double degrees) {
  return boost::math::quantile(boost::math::students_t_distribution<double, InDoubles>(degrees), p);
}

double digamma(double x) { return boost::math::digamma(x, InDoubles{}); }
double trigamma(double x) { return boost::math::trigamma(x, InDoubles{}); }

double interval_score(double low, double high, double value) {
  return high - low + kPenalty * (std::max(0.0, low - value) + std::max(0.0, value - high));
}

double expected_interval_score(double low, double high, double mean, double deviation) {
  if (!(deviation > 0)) return interval_score(low, high, mean);
  return high - low +
         kPenalty * deviation * (mean_excess((mean - low) / deviation) + mean_excess((high - mean) / deviation));
}

}  // namespace rehearse
