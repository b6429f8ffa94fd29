#include "tests/support/catch.hpp"
#include "tests/unit/search/jobs.hpp"

using namespace rehearse;

namespace {

Found found(double time, double memory, std::uint64_t order, double played = 0) {
  Found f;
  f.order = order;
  f.evaluation.fits = true;
  f.evaluation.step_time = Seconds{time};
  f.evaluation.needed = Bytes{memory};
  if (played > 0) f.evaluation.played = Seconds{played};
  return f;
}

std::vector<std::uint64_t> orders(const std::vector<Found>& list) {
  std::vector<std::uint64_t> out;
  for (const Found& f : list) out.push_back(f.order);
  return out;
}

}  // namespace

TEST_CASE("played plans stand by their played time, before those that were not") {
  std::vector<Found> list{found(1.0, 5, 1), found(2.0, 5, 2, 2.5), found(2.1, 5, 3, 2.2)};
  rank(list, Objective::step_time);
  CHECK(orders(list) == std::vector<std::uint64_t>{3, 2, 1});
}

TEST_CASE("of plans with equal time and memory the first in the space stays") {
  std::vector<Found> list{found(1.0, 5, 9), found(1.0, 5, 4), found(1.0, 6, 2)};
  rank(list, Objective::step_time);
  CHECK(orders(list) == std::vector<std::uint64_t>{4, 2});
}

TEST_CASE("by memory the smallest is best, the faster of two equally small ones first") {
  std::vector<Found> list{found(1.0, 5, 1), found(3.0, 4, 2), found(2.0, 4, 3)};
  rank(list, Objective::memory);
  CHECK(orders(list) == std::vector<std::uint64_t>{3, 2, 1});
}

TEST_CASE("the front drops what is beaten and refuses what is no better") {
  std::vector<Found> front;
  for (const Found& f :
       {found(2, 5, 1), found(3, 4, 2), found(4, 4, 3), found(1, 9, 4), found(2, 4.5, 5), found(2, 4.5, 6)})
    add_to_front(front, f);
  CHECK(orders(front) == std::vector<std::uint64_t>{4, 5, 2});
}
