#pragma once
// What must hold of the books of any run, whatever was played.

#include <algorithm>
#include <map>

#include "tests/support/catch.hpp"
#include "tests/support/testbed.hpp"

namespace rehearse::testing {

/// Breakdowns add up to the step and hold nothing negative; spans of one stream of one rank follow each other within
/// the step.
inline void check_books(const RunResult& run, const Trace& trace) {
  const double step = run.step_time.value();
  REQUIRE(step > 0);
  CHECK(run.breaches.empty());
  for (const RankMetrics& rank : run.ranks) {
    INFO("rank " << rank.rank);
    CHECK(rank.breakdown.total().value() == Approx(step).epsilon(1e-9));
    CHECK(std::all_of(rank.breakdown.seconds.begin(), rank.breakdown.seconds.end(),
                      [](Seconds s) { return s.value() >= -1e-12; }));
    for (const Seconds busy : rank.stream_busy) CHECK(busy.value() <= step * (1 + 1e-9));
  }
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> streams;
  for (const Span& s : trace.spans) streams[{s.rank, s.stream}].emplace_back(s.begin.value(), s.end.value());
  for (auto& [stream, spans] : streams) {
    INFO("rank " << stream.first << ", stream " << trace.streams.at(static_cast<std::size_t>(stream.second)));
    std::sort(spans.begin(), spans.end());
    double reached = 0;
    int overlaps = 0, backwards = 0;
    for (const auto& [begin, end] : spans) {
      overlaps += begin < reached - 1e-9 * step;
      backwards += end < begin;
      reached = end;
    }
    CHECK(overlaps == 0);
    CHECK(backwards == 0);
    CHECK(reached <= step * (1 + 1e-9));
  }
}

/// Plays with spans of every rank and checks the books.
inline RunResult checked_play(const Testbed& bed, PlayClock& clock, const Program& program,
                              const RunOptions& options = {}) {
  std::vector<int> ranks;
  for (int r = 0; r < program.mesh.ranks(); ++r) ranks.push_back(r);
  Trace trace(ranks);
  trace.streams = program.stream_names();
  RunResult run = play(program, bed.cluster, bed.cost, options, trace, clock, "test");
  check_books(run, trace);
  return run;
}

}  // namespace rehearse::testing
