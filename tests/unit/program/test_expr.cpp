#include <functional>

#include "core/base/index.hpp"
#include "core/program/expr.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

ExprContext somewhere() {
  ExprContext at;
  nth(at.coord, Axis::tp) = 3;
  nth(at.extent, Axis::tp) = 8;
  at.layer = 5;
  at.microbatch = 2;
  at.microbatches = 6;
  return at;
}

}  // namespace

TEST_CASE("operations compute, the same folded as evaluated") {
  const struct {
    ExprOp op;
    std::int64_t a, b, value;
  } kCases[] = {{ExprOp::add, 7, 3, 10},       {ExprOp::sub, 3, 7, -4},        {ExprOp::mul, -7, 3, -21},
                {ExprOp::div, 7, 2, 3},        {ExprOp::div, -7, 2, -4},       {ExprOp::mod, -7, 2, 1},
                {ExprOp::mod, 7, -2, -1},      {ExprOp::min, 7, 3, 3},         {ExprOp::max, 7, 3, 7},
                {ExprOp::eq, 3, 3, 1},         {ExprOp::ne, 3, 3, 0},          {ExprOp::lt, 3, 3, 0},
                {ExprOp::le, 3, 3, 1},         {ExprOp::logical_and, 2, 0, 0}, {ExprOp::logical_or, 2, 0, 1},
                {ExprOp::logical_not, 2, 0, 0}};
  for (const auto& c : kCases) {
    ExprPool pool;
    const ExprId folded = pool.apply(c.op, pool.constant(c.a), pool.constant(c.b));
    INFO(static_cast<int>(c.op) << " " << c.a << " " << c.b);
    REQUIRE(pool.is_constant(folded));
    CHECK(pool.evaluate(folded, {}) == c.value);
    // The same of variables with those values.
    ExprContext at;
    at.layer = static_cast<std::int32_t>(c.a);
    at.chunk = static_cast<std::int32_t>(c.b);
    const ExprId open = pool.apply(c.op, pool.variable(Var::layer), pool.variable(Var::chunk));
    REQUIRE_FALSE(pool.is_constant(open));
    CHECK(pool.evaluate(open, at) == c.value);
  }
}

TEST_CASE("variables take their values from the context") {
  ExprPool pool;
  const ExprContext at = somewhere();
  CHECK(pool.evaluate(pool.coord(Axis::tp), at) == 3);
  CHECK(pool.evaluate(pool.extent(Axis::tp), at) == 8);
  CHECK(pool.evaluate(pool.coord(Axis::pp), at) == 0);
  CHECK(pool.evaluate(pool.variable(Var::microbatches), at) == 6);
  // Last microbatch: the predicate of gradient reduction.
  const ExprId last = pool.apply(ExprOp::eq, pool.apply(ExprOp::add, pool.variable(Var::microbatch), ExprPool::kOne),
                                 pool.variable(Var::microbatches));
  CHECK(pool.evaluate(last, at) == 0);
}

TEST_CASE("equal expressions have one id, and select leaves the other branch alone") {
  ExprPool pool;
  const auto sum = [&] { return pool.apply(ExprOp::add, pool.coord(Axis::tp), pool.constant(4)); };
  CHECK(sum() == sum());
  const ExprId bad = pool.apply(ExprOp::div, ExprPool::kOne, pool.variable(Var::layer));
  const ExprId guarded = pool.apply(ExprOp::select, pool.variable(Var::layer), bad, ExprPool::kZero);
  CHECK(pool.evaluate(guarded, {}) == 0);
  CHECK_THROWS_AS(pool.evaluate(bad, {}), std::logic_error);
  CHECK_THROWS_AS(pool.apply(ExprOp::constant, ExprPool::kOne), std::logic_error);
}

TEST_CASE("tables and dynamic sizes are looked up where they are given") {
  ExprPool pool;
  const std::vector<std::vector<std::int64_t>> values{{10, 11}, {20, 21, 22}};
  const ExprId third = pool.apply(ExprOp::lookup, pool.constant(1), pool.variable(Var::layer));
  const ExprId element = pool.apply(ExprOp::element, pool.variable(Var::dynamic, 0), pool.variable(Var::peer));
  ExprContext at;
  CHECK_THROWS_AS(pool.evaluate(third, at), std::logic_error);
  at.tables = at.dynamic = &values;
  at.layer = 2;
  at.peer = 1;
  CHECK(pool.evaluate(third, at) == 22);
  CHECK(pool.evaluate(element, at) == 11);
  CHECK(pool.evaluate(pool.variable(Var::dynamic, 1), at) == 20);
}

TEST_CASE("dependence on a variable is exact as to axis and through operands") {
  ExprPool pool;
  const ExprId e =
      pool.apply(ExprOp::select, pool.coord(Axis::tp), pool.variable(Var::layer), pool.extent(Axis::dp_shard));
  CHECK(pool.depends_on(e, Var::coord, static_cast<int>(Axis::tp)));
  CHECK_FALSE(pool.depends_on(e, Var::coord, static_cast<int>(Axis::pp)));
  CHECK(pool.depends_on(e, Var::layer));
  CHECK_FALSE(pool.depends_on(e, Var::microbatch));
  CHECK_FALSE(pool.depends_on(pool.apply(ExprOp::add, ExprPool::kOne, ExprPool::kOne), Var::layer));
}

TEST_CASE("text reads as arithmetic") {
  ExprPool pool;
  const ExprId next =
      pool.apply(ExprOp::mod, pool.apply(ExprOp::add, pool.coord(Axis::pp), ExprPool::kOne), pool.extent(Axis::pp));
  CHECK(pool.to_string(next) == "((pp + 1) % |pp|)");
  CHECK(pool.to_string(pool.apply(ExprOp::max, pool.variable(Var::layer), pool.constant(-2))) == "max(layer, -2)");
  CHECK(pool.to_string(pool.apply(ExprOp::logical_not, pool.variable(Var::step))) == "!step");
  CHECK(pool.to_string(pool.apply(ExprOp::select, pool.variable(Var::copy), ExprPool::kOne,
                                  pool.variable(Var::dynamic, 3))) == "(copy ? 1 : dynamic[3])");
}

TEST_CASE("a dynamic size is what its context says, else its expectation") {
  ExprPool pool;
  const ExprId mean = pool.apply(ExprOp::mul, pool.coord(Axis::ep), pool.constant(10));
  const ExprId size = pool.dynamic(1, mean);
  ExprContext at;
  nth(at.coord, Axis::ep) = 3;
  CHECK(pool.evaluate(size, at) == 30);
  CHECK(pool.evaluate(pool.apply(ExprOp::element, size, pool.constant(2)), at) == 30);
  CHECK(pool.depends_on(size, Var::dynamic, 1));
  CHECK(pool.depends_on(size, Var::coord, static_cast<int>(Axis::ep)));
  CHECK_FALSE(pool.depends_on(size, Var::coord, static_cast<int>(Axis::tp)));
  const std::vector<std::vector<std::int64_t>> values{{1}, {20, 21, 22}};
  at.dynamic = &values;
  CHECK(pool.evaluate(size, at) == 20);
  CHECK(pool.evaluate(pool.apply(ExprOp::element, size, pool.constant(2)), at) == 22);
  CHECK_THROWS_AS(pool.evaluate(pool.variable(Var::dynamic, 0), ExprContext{}), std::logic_error);
}

TEST_CASE("a pool comes back from its nodes, damaged nodes are refused") {
  ExprPool pool;
  for (int i = 0; i < 500; ++i) pool.apply(ExprOp::mul, pool.coord(Axis::tp), pool.constant(i));
  pool.dynamic(0, pool.constant(7));
  CHECK(ExprPool::from_nodes(pool.nodes()).nodes() == pool.nodes());
  auto forward = pool.nodes();
  forward[3].op = ExprOp::add;
  forward[3].args[0] = ExprId{400};
  CHECK_THROWS_AS(ExprPool::from_nodes(forward), std::invalid_argument);
  auto twice = pool.nodes();
  twice.push_back(twice[2]);
  CHECK_THROWS_AS(ExprPool::from_nodes(twice), std::invalid_argument);
}
