// Demands on links: what is overloaded, whom that concerns, and sums that return to zero.

#include <algorithm>
#include <random>

#include "sim/link_loads.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_cluster.hpp"

using namespace rehearse;
using namespace rehearse::testing;
using rehearse::sim::LinkLoads;
using FlowIds = std::vector<LinkLoads::FlowId>;

namespace {

const BytesPerSecond kNic{10e9};

}  // namespace

TEST_CASE("demands that add up to the rate of a link fit it, more overload it") {
  const auto cluster = small_cluster(2);
  const auto links = cluster.route(0, 8).links;
  LinkLoads loads(cluster);
  for (LinkLoads::FlowId f = 0; f < 3; ++f) {
    loads.book(f, links, kNic / 3);
    CHECK_FALSE(loads.overloaded(f));
    loads.set_free(f);
  }
  CHECK(loads.squeezed().empty());
  loads.book(3, links, kNic * 1e-8);
  CHECK(loads.overloaded(3));
  CHECK(loads.squeezed() == FlowIds{0, 1, 2});
}

TEST_CASE("a link crossed w times is asked for w times the demand") {
  const auto cluster = small_cluster(2);
  auto links = cluster.route(0, 8).links;
  links.insert(std::find(links.begin(), links.end(), links[links.size() / 2]), 7, links[links.size() / 2]);
  LinkLoads loads(cluster);
  const auto rate = cluster.link_rate(links[links.size() / 2]);
  loads.book(0, links, rate / 8);
  CHECK_FALSE(loads.overloaded(0));
  loads.book(1, links, rate / 1000);
  CHECK(loads.overloaded(0));
}

TEST_CASE("only those who cross the overloaded link are squeezed, and they stay booked when solved") {
  const auto cluster = small_cluster(4);
  LinkLoads loads(cluster);
  const auto out = cluster.route(0, 8).links, elsewhere = cluster.route(1, 9).links, again = cluster.route(0, 16).links;
  loads.book(0, out, kNic);
  loads.set_free(0);
  loads.book(1, elsewhere, kNic);
  loads.set_free(1);
  loads.book(2, again, kNic);
  CHECK(loads.squeezed() == FlowIds{0});
  loads.set_solved(0);
  CHECK(loads.squeezed().empty());
  loads.forget_overloads();
  CHECK(loads.overloaded(2));
  loads.release(2);
  CHECK_FALSE(loads.overloaded(0));
  loads.book(3, again, kNic / 2);
  CHECK(loads.overloaded(3));
}

TEST_CASE("a hundred thousand bookings in any order leave nothing behind") {
  const auto cluster = small_cluster(2);
  const auto links = cluster.route(0, 8).links;
  LinkLoads loads(cluster);
  std::mt19937 random(3);
  std::vector<bool> booked(64, false);
  for (int i = 0; i < 100000; ++i) {
    const auto flow = static_cast<LinkLoads::FlowId>(random() % booked.size());
    if (booked[flow]) {
      loads.release(flow);
    } else {
      loads.book(flow, links, BytesPerSecond{1 + 1e8 * static_cast<double>(random() % 1000) / 7.3});
      if (!loads.overloaded(flow) && random() % 2 == 0) loads.set_free(flow);
      for (const auto other : loads.squeezed()) loads.set_solved(other);
      loads.forget_overloads();
    }
    booked[flow] = !booked[flow];
  }
  for (LinkLoads::FlowId flow = 0; flow < booked.size(); ++flow) loads.release(flow);
  loads.book(0, links, kNic);
  CHECK_FALSE(loads.overloaded(0));
}
