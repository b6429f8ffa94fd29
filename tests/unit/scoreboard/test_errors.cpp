#include "tests/unit/scoreboard/rows.hpp"

using namespace rehearse;

TEST_CASE("error figures are of absolute errors, bias of signed ones") {
  const ErrorStatistics s = statistics({-0.1, 0.2, -0.3, 0.05, 0.0});
  CHECK(s.rows == 5);
  CHECK(s.median == Approx(0.1));
  CHECK(s.mean == Approx(0.13));
  CHECK(s.worst == Approx(0.3));
  CHECK(s.bias == Approx(0.0));
  CHECK(s.p90 == Approx(0.2 + 0.6 * 0.1));
}

TEST_CASE("quantiles lie between neighbours") {
  CHECK(quantile({4, 1, 3, 2}, 0.5) == Approx(2.5));
  CHECK(quantile({4, 1, 3, 2}, 0) == 1);
  CHECK(quantile({4, 1, 3, 2}, 1) == 4);
  CHECK(quantile({7}, 0.9) == 7);
  CHECK(statistics({}).rows == 0);
}
