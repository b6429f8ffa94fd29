#include "core/base/normal.hpp"

#include <numbers>

#include <boost/math/special_functions/erf.hpp>

namespace rehearse {

double normal_quantile(double p) { return -std::numbers::sqrt2 * boost::math::erfc_inv(2 * p); }

double expected_order_statistic(int place, int n) { return normal_quantile((n - place + 0.625) / (n + 0.25)); }

}  // namespace rehearse
