// Categories have distinct names; breakdowns add and scale; a trace keeps what it is given.

#include <set>
#include <string>

#include "core/trace/trace.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

TEST_CASE("every category has a name of its own, and a waiting rank's is bubble", "[trace]") {
  std::set<std::string> names;
  for (int c = 0; c < kTimeCategories; ++c) names.insert(std::string(name_of(static_cast<TimeCategory>(c))));
  CHECK(names.size() == kTimeCategories);
  CHECK(name_of(TimeCategory::bubble) == "bubble");
  CHECK(name_of(TimeCategory::exposed_tp) == "exposed_tp");
}

TEST_CASE("the total of a breakdown is the sum of its categories, and scales with them", "[trace]") {
  Breakdown layer;
  layer[TimeCategory::matmul] = Seconds{3};
  layer[TimeCategory::exposed_tp] = Seconds{1};
  Breakdown step = layer;
  step *= 24;
  step[TimeCategory::bubble] = Seconds{4};
  CHECK(step.total().value() == Approx(100));
  step += layer;
  CHECK(step[TimeCategory::matmul].value() == Approx(75));
  CHECK(step.total().value() == Approx(104));
}

TEST_CASE("a trace wants the ranks it was made for", "[trace]") {
  Trace trace({0, 64});
  CHECK(trace.wants(64));
  CHECK_FALSE(trace.wants(1));
  Span span;
  span.rank = 64;
  trace.span(span);
  CHECK(trace.spans.size() == 1);
}
