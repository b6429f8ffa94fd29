#include "core/base/normal.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

TEST_CASE("quantiles of the normal distribution are those of its tables") {
  CHECK(normal_quantile(0.5) == Approx(0).margin(1e-12));
  CHECK(normal_quantile(0.975) == Approx(1.959964).epsilon(1e-6));
  CHECK(normal_quantile(0.001) == Approx(-3.090232).epsilon(1e-6));
}

TEST_CASE("draws in their order: within Blom's error of the exact expectations") {
  CHECK(expected_order_statistic(1, 1) == Approx(0).margin(1e-12));
  CHECK(expected_order_statistic(1, 2) == Approx(0.5642).epsilon(0.05));
  CHECK(expected_order_statistic(1, 8) == Approx(1.4236).epsilon(0.01));
  CHECK(expected_order_statistic(2, 8) == Approx(0.8522).epsilon(0.01));
  for (int place = 1; place <= 8; ++place)
    CHECK(expected_order_statistic(place, 8) == Approx(-expected_order_statistic(9 - place, 8)).margin(1e-12));
}
