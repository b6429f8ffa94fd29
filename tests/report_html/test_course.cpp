// Memory over a step.

#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "core/report/html/course_data.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/report/plans.hpp"

using namespace rehearse;
using nlohmann::json;

namespace {

double sum(const CategoryBytes& bytes) {
  double out = 0;
  for (const Bytes b : bytes) out += b.value();
  return out;
}

/// Every compute call of `rank`, one second each, in issue order.
Trace one_second_each(const Program& program, int rank) {
  Trace trace({rank});
  double now = 0;
  for (const MemoryPoint& p : memory_course(program, rank, Bytes{0}, Bytes{0})) {
    if (p.stream != 0) continue;
    const Body& body = nth(program.bodies, p.body);
    Span s;
    s.rank = rank;
    s.name = body.name;
    s.layer = p.layer, s.chunk = p.chunk, s.microbatch = body.phase == Phase::optimizer ? -1 : p.microbatch;
    s.begin = Seconds{now}, s.end = Seconds{++now};
    trace.spans.push_back(s);
  }
  return trace;
}

}  // namespace

TEST_CASE("the highest point of a rank's course is its peak", "[memory]") {
  const Cluster cluster = test::one_machine();
  const Program program = lower(test::tiny_workload(), test::eight_gpus(), cluster);
  const MemoryRule rule;
  for (const RoleMemory& role : rule.peaks(program)) {
    double most = 0;
    for (const MemoryPoint& p : memory_course(program, role.rank, rule.workspace, rule.outside(program, role.rank)))
      most = std::max(most, sum(p.by_category));
    CHECK(most == Approx(role.peak.value()));
  }
}

TEST_CASE("a course ends where it began but for what a step keeps", "[memory]") {
  const Cluster cluster = test::one_machine();
  const Program program = lower(test::tiny_workload(), test::eight_gpus(), cluster);
  const auto weights = static_cast<std::size_t>(MemoryCategory::weights);
  const std::vector<MemoryPoint> course = memory_course(program, 0, Bytes{0}, Bytes{0});
  CHECK(course.front().by_category[weights] == course.back().by_category[weights]);
  CHECK(nth(course.back().by_category, MemoryCategory::activations) < course.front().by_category[weights]);
}

TEST_CASE("thinned, a course keeps its peak and its order in time", "[memory]") {
  const Cluster cluster = test::one_machine();
  const Program program = lower(test::tiny_workload(), test::eight_gpus(), cluster);
  const MemoryReport memory = memory_report(program, cluster, {});
  const Trace trace = one_second_each(program, 0);
  const json data = json::parse(course_json(program, memory, trace, Seconds{0}, trace.spans.back().end, 5));
  REQUIRE(data["rows"].size() == 1);  // Of the other stage no rank was traced.
  const json& row = data["rows"][0];
  CHECK(row["t"].size() <= 5);
  double most = 0, before = -1;
  for (std::size_t i = 0; i < row["t"].size(); ++i) {
    double sum = 0;
    for (const json& b : row["bytes"][i]) sum += b.get<double>();
    most = std::max(most, sum);
    CHECK(row["t"][i].get<double>() > before);
    before = row["t"][i].get<double>();
  }
  CHECK(most == Approx(memory.stages.front().memory.peak.value()));
}
