#include "core/base/error.hpp"
#include "core/collective/collective.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

TEST_CASE("Bus factors are those of nccl-tests") {
  CHECK(bus_factor(CollectiveOp::all_reduce, 8) == Approx(1.75));
  CHECK(bus_factor(CollectiveOp::all_gather, 8) == Approx(0.875));
  CHECK(bus_factor(CollectiveOp::reduce_scatter, 4) == Approx(0.75));
  CHECK(bus_factor(CollectiveOp::all_to_all, 2) == Approx(0.5));
  CHECK(bus_factor(CollectiveOp::broadcast, 8) == 1);
  CHECK(bus_factor(CollectiveOp::all_reduce, 1) == 0);
}

TEST_CASE("Every collective's name parses back") {
  for (int i = 0; i <= int(CollectiveOp::send_recv); ++i)
    CHECK(parse_collective_op(name_of(CollectiveOp(i))) == CollectiveOp(i));
  CHECK_THROWS_AS(parse_collective_op("allreduce"), Error);
}
