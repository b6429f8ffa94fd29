// The books of every kind of run: times add up, spans follow each other, several steps settle.

#include "tests/conformance/books.hpp"
#include "tests/conformance/scenes.hpp"

using namespace rehearse;
using namespace rehearse::testing;

TEST_CASE("breakdowns add up to the step on every rank, and streams do one thing at a time") {
  for (const Scene& s : scenes())
    for (const bool fold : {true, false}) {
      INFO(s.name << (fold ? ", folded" : ", every rank"));
      const Testbed bed(s.nodes);
      AnalyticClock clock(bed.cluster);
      RunOptions options;
      options.fold = fold;
      const RunResult run = checked_play(bed, clock, s.job.lower(), options);
      int ranks = 0;
      for (const RankMetrics& rank : run.ranks) ranks += rank.stands_for;
      CHECK(ranks == s.job.ranks());
      CHECK((static_cast<int>(run.ranks.size()) < ranks) == run.folded);
      CHECK((fold || !run.folded));
    }
}

TEST_CASE("ranks played as one take as long as each by itself") {
  for (const Scene& s : scenes()) {
    INFO(s.name);
    const Testbed bed(s.nodes);
    const Program p = s.job.lower();
    RunOptions every_rank;
    every_rank.fold = false;
    const RunResult folded = bed.analytic(p), unfolded = bed.analytic(p, every_rank);
    CHECK(folded.folded == (folded.ranks.size() < unfolded.ranks.size()));
    CHECK(folded.step_time.value() == Approx(unfolded.step_time.value()).epsilon(1e-9));
    for (const RankMetrics& rank : folded.ranks) {
      const auto same = std::find_if(unfolded.ranks.begin(), unfolded.ranks.end(),
                                     [&](const RankMetrics& r) { return r.rank == rank.rank; });
      for (std::size_t c = 0; c < rank.breakdown.seconds.size(); ++c)
        CHECK(rank.breakdown.seconds[c].value() ==
              Approx(same->breakdown.seconds[c].value()).margin(1e-9 * folded.step_time.value()));
    }
  }
}

TEST_CASE("the same run twice is the same to the bit") {
  const Scene s = scenes().back();
  const Testbed bed(s.nodes);
  const Program p = s.job.lower();
  const RunResult a = bed.analytic(p), b = bed.analytic(p);
  CHECK(a.step_time.value() == b.step_time.value());
  for (std::size_t r = 0; r < a.ranks.size(); ++r) CHECK(a.ranks[r].breakdown.seconds == b.ranks[r].breakdown.seconds);
}
