#include "core/base/error.hpp"
#include "core/import/traces/trace_report.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/import/trace_files.hpp"

namespace rehearse {
namespace {

using testing::HandTrace;

TEST_CASE("Waiting lasts until the last rank enters") {
  // Both leave at 10; the second comes 4 later.
  const JobTrace job =
      align({HandTrace(0).call(2, 8, "all_reduce", 100).trace, HandTrace(1).call(6, 4, "all_reduce", 100).trace});
  REQUIRE(job.matched.size() == 1);
  CHECK(job.waiting(0, 0).value() == Approx(4));
  CHECK(job.transfer(0, 0).value() == Approx(4));
  CHECK(job.waiting(1, 0).value() == 0);
}

TEST_CASE("Clocks are set by the ends of collectives, whose ranks leave together") {
  HandTrace late(1);
  late.trace.base_us = 3'000'000;  // Its clock is three seconds ahead.
  late.call(6, 4, "all_reduce", 100, 0).call(20, 2, "all_reduce", 100, 1);
  const JobTrace job =
      align({HandTrace(0).call(2, 8, "all_reduce", 100, 0).call(19, 3, "all_reduce", 100, 1).trace, late.trace});
  CHECK(job.clock[0] == Seconds{0});
  CHECK(job.clock[1].value() == Approx(0).margin(1e-9));
  CHECK(job.waiting(0, 0).value() == Approx(4));
}

TEST_CASE("Sequence numbers match calls where one rank's first were not traced") {
  const JobTrace job = align({HandTrace(0)
                                  .call(0, 1, "all_reduce", 8, 5)
                                  .call(10, 1, "all_reduce", 8, 6)
                                  .call(20, 1, "all_reduce", 8, 7)
                                  .trace,
                              HandTrace(1).call(9, 2, "all_reduce", 8, 6).call(19, 2, "all_reduce", 8, 7).trace});
  REQUIRE(job.matched.size() == 2);
  CHECK(job.match_of[0][0] == -1);
  CHECK(job.match_of[0][1] == job.match_of[1][0]);
  CHECK(job.how_matched.find("sequence") != std::string::npos);
}

TEST_CASE("Without numbers, calls that do not overlap in time are different ones") {
  const JobTrace job = align({HandTrace(0).call(0, 1, "all_reduce", 8).call(10, 1, "all_reduce", 8).trace,
                              HandTrace(1).call(9.5, 1.5, "all_reduce", 8).trace});
  REQUIRE(job.matched.size() == 1);
  CHECK(job.match_of[0][0] == -1);
  CHECK(job.match_of[0][1] == 0);
}

TEST_CASE("Calls of another group or size do not match") {
  const JobTrace job =
      align({HandTrace(0, 4).call(0, 1, "all_reduce", 8, -1, {0, 1}).call(2, 1, "all_reduce", 8, -1, {0, 2}).trace,
             HandTrace(2, 4).call(0, 1, "all_reduce", 8, -1, {2, 3}).call(2, 1, "all_reduce", 8, -1, {0, 2}).trace});
  REQUIRE(job.matched.size() == 1);
  CHECK(job.match_of[0][1] == 0);
  CHECK(align({HandTrace(0).call(0, 1, "all_reduce", 8).trace, HandTrace(1).call(0, 1, "all_reduce", 16).trace})
            .matched.empty());
  // An all-to-all gives every rank its own number of bytes.
  CHECK(align({HandTrace(0).call(0, 1, "all_to_all", 8).trace, HandTrace(1).call(0, 1, "all_to_all", 16).trace})
            .matched.size() == 1);
}

TEST_CASE("Ranks of different jobs, and one rank twice, are refused") {
  CHECK_THROWS_AS(align({HandTrace(0).kernel(0, 1).trace, HandTrace(0).kernel(0, 1).trace}), Error);
  CHECK_THROWS_AS(align({HandTrace(0, 2).kernel(0, 1).trace, HandTrace(1, 4).kernel(0, 1).trace}), Error);
  CHECK_THROWS_AS(align({}), Error);
}

TEST_CASE("Totals of a trace are those of its spans, waiting apart") {
  const JobTrace job = align({HandTrace(0).kernel(0, 2).call(2, 8, "all_reduce", 100).trace,
                              HandTrace(1).kernel(0, 5).call(6, 4, "all_reduce", 100).trace});
  const Trace spans = to_trace(job);
  Seconds compute, moving, waiting;
  for (const Span& s : spans.spans)
    (s.kind == SpanKind::wait ? waiting : s.kind == SpanKind::collective ? moving : compute) += s.end - s.begin;
  CHECK(compute.value() == Approx(7));
  CHECK(moving.value() == Approx(8));
  CHECK(waiting.value() == Approx(4));
  const RankTotals first = rank_totals(job, 0);
  CHECK(first.calls.at("all_reduce").time.value() == Approx(8));
  CHECK(first.calls.at("all_reduce").waiting.value() == Approx(4));
  CHECK(first.kernels.at("matmul").count == 1);
}

}  // namespace
}  // namespace rehearse
