// The table of layout changes and the collectives that they are.

#include "core/strategy/operators/redistribute.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

std::vector<std::optional<CollectiveOp>> ops(const AxisLayout& from, const AxisLayout& to) {
  std::vector<std::optional<CollectiveOp>> out;
  for (const LayoutStep& s : redistribution({{Axis::tp, from}}, {{Axis::tp, to}})) {
    CHECK(s.axis == Axis::tp);
    out.push_back(s.op);
  }
  return out;
}

using Ops = std::vector<std::optional<CollectiveOp>>;

}  // namespace

TEST_CASE("a layout change is one collective, or none") {
  CHECK(ops(Partial{}, Replicate{}) == Ops{CollectiveOp::all_reduce});
  CHECK(ops(Partial{}, shard_on(1)) == Ops{CollectiveOp::reduce_scatter});
  CHECK(ops(shard_on(1), Replicate{}) == Ops{CollectiveOp::all_gather});
  CHECK(ops(shard_on(1), shard_on(2)) == Ops{CollectiveOp::all_to_all});
  CHECK(ops(Replicate{}, shard_on(1)) == Ops{std::nullopt});
  CHECK(ops(shard_on(1), shard_on(1)).empty());
  CHECK(ops(Replicate{}, Replicate{}).empty());
  CHECK(redistribution({{Axis::tp, Partial{ReduceOp::max}}}, {}).at(0).reduce == ReduceOp::max);
}

TEST_CASE("a whole value cannot become a partial sum") {
  CHECK_THROWS_AS(ops(Replicate{}, Partial{}), std::logic_error);
  CHECK_THROWS_AS(ops(shard_on(0), Partial{}), std::logic_error);
}

TEST_CASE("axes change independently") {
  const Layout from{{Axis::dp_replicate, shard_on(0)}, {Axis::tp, Partial{}}};
  const auto steps = redistribution(from, {{Axis::dp_replicate, shard_on(0)}});
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].axis == Axis::tp);
}

TEST_CASE("a gradient lies as its value, a partial sum's gradient is whole") {
  const Layout value{{Axis::dp_replicate, shard_on(0)}, {Axis::tp, Partial{}}, {Axis::cp, Replicate{}}};
  CHECK(gradient_layout(value) == Layout{{Axis::dp_replicate, shard_on(0)}});
}

TEST_CASE("setting one axis keeps the order of the others") {
  const Layout l{{Axis::dp_replicate, shard_on(0)}, {Axis::tp, shard_on(2)}};
  CHECK(with_axis(l, Axis::tp, Replicate{}) == Layout{{Axis::dp_replicate, shard_on(0)}});
  CHECK(with_axis(l, Axis::dp_replicate, Partial{}) ==
        Layout{{Axis::dp_replicate, Partial{}}, {Axis::tp, shard_on(2)}});
  CHECK(with_axis({}, Axis::tp, Replicate{}).empty());
}
