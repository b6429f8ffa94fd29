#include "core/play/clocks/lane_routes.hpp"

#include <algorithm>
#include <stdexcept>

#include "tests/support/catch.hpp"
#include "tests/support/small_cluster.hpp"

using namespace rehearse;
using namespace rehearse::testing;

TEST_CASE("one lane is the cluster's route, and its rate alone that of the slowest link") {
  const auto cluster = small_cluster(2);
  LaneRoutes routes(cluster);
  const auto& route = routes.find(0, 8, 1, 0);
  CHECK(route.links == cluster.route(0, 8).links);
  CHECK(route.folded == route.links);
  CHECK(route.solo_rate.value() == 10e9);
  CHECK(routes.find(0, 1, 1, 0).solo_rate.value() == kNvlink);
  CHECK(&routes.find(0, 8, 1, 0) == &route);
}

TEST_CASE("lanes on rails of their own fold to lane 0 with weight 1") {
  const auto cluster = small_cluster(2);
  LaneRoutes routes(cluster);
  const auto& route = routes.find(0, 8, 8, 1);
  CHECK(route.folded == cluster.route(0, 8).links);
  CHECK(route.links.size() == 8 * route.folded.size());
  CHECK(route.solo_rate.value() == 10e9);
}

TEST_CASE("lanes that share a NIC weigh on it as often as they cross it") {
  const auto cluster = small_cluster(2, {8, 2});
  LaneRoutes routes(cluster);
  const auto& route = routes.find(0, 8, 4, 1);  // The four GPUs of one NIC.
  REQUIRE(!route.folded.empty());
  CHECK(route.solo_rate.value() == 10e9 / 4);
  for (LinkId link : cluster.route(0, 8).links) {
    const auto crossings = std::count(route.links.begin(), route.links.end(), link);
    CHECK(std::count(route.folded.begin(), route.folded.end(), link) == crossings);
  }
  CHECK(routes.find(0, 8, 8, 1).solo_rate.value() == 10e9 / 4);  // All eight: each NIC still carries four.
  CHECK(!routes.find(0, 8, 8, 1).folded.empty());
}

TEST_CASE("lanes that don't look alike are not folded") {
  const auto cluster = small_cluster(2, {8, 2});
  LaneRoutes routes(cluster);
  const auto& uneven = routes.find(0, 8, 5, 1);  // Four lanes on one NIC, one on the other.
  CHECK(uneven.folded.empty());
  CHECK(uneven.solo_rate.value() == 10e9 / 4);
  CHECK(routes.find(6, 7, 2, 1).folded.empty());  // Inside the node, then across.
}

TEST_CASE("flows that cannot be are refused") {
  const auto cluster = small_cluster(2);
  LaneRoutes routes(cluster);
  CHECK_THROWS_AS(routes.find(0, 0, 1, 0), std::logic_error);
  CHECK_THROWS_AS(routes.find(0, 16, 1, 0), std::logic_error);
  CHECK_THROWS_AS(routes.find(0, 9, 8, 1), std::logic_error);
  CHECK_THROWS_AS(routes.find(0, 1, 0, 1), std::logic_error);
}
