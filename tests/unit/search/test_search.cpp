#include <atomic>

#include "tests/support/catch.hpp"
#include "tests/unit/search/exhaustive.hpp"

using namespace rehearse;
using namespace rehearse::test;

TEST_CASE("a search is never worse than playing every plan") {
  const SearchJob small("tiny_gpt2", "dgx_a100_80gb", 1, 8, 64);
  const SearchJob large("gpt2_xl", "dgx_a100_80gb", 1, 8, 512);
  SearchOptions options = on_analytic({"recompute", "offload", "cp", "microbatch", "sequence_parallel"});
  for (const SearchJob* job : {&small, &large}) {
    const SearchProblem problem = job->problem();
    const SearchResult found = search(problem, problem.own, options);
    REQUIRE_FALSE(found.best.empty());
    CHECK(found.best.front().evaluation.time() <= exhaustive(problem, options).best);
  }
}

TEST_CASE("with less memory a search finds what fits, and still the best of it") {
  const SearchJob job("gpt2_xl", "dgx_a100_80gb", 1, 8, 512);
  const SearchProblem problem = job.problem();
  SearchOptions options = on_analytic({"offload", "cp", "microbatch", "sequence_parallel", "zero_stage"});
  const SearchResult free = search(problem, problem.own, options);
  options.most_memory = Bytes{8e9};
  const SearchResult tight = search(problem, problem.own, options);
  REQUIRE_FALSE(tight.best.empty());
  CHECK(tight.best.front().evaluation.needed <= Bytes{8e9});
  CHECK(tight.best.front().evaluation.time() >= free.best.front().evaluation.time());
  CHECK(tight.best.front().evaluation.time() <= exhaustive(problem, options).best);
  options.most_memory = Bytes{1e9};
  CHECK(search(problem, problem.own, options).best.empty());
}

TEST_CASE("any number of threads finds the same plans") {
  const SearchJob job("tiny_gpt2", "dgx_a100_80gb", 1, 8, 64);
  const SearchProblem problem = job.problem();
  SearchOptions options = on_analytic({"offload", "sequence_parallel"});
  const SearchResult one = search(problem, problem.own, options);
  options.jobs = 3;
  const SearchResult three = search(problem, problem.own, options);
  CHECK(listed(one.best) == listed(three.best));
  CHECK(listed(one.front) == listed(three.front));
  CHECK(one.evaluated == three.evaluated);
  CHECK(one.legal == three.legal);
}

TEST_CASE("the front has no plan that another beats, and holds the fastest") {
  const SearchJob job("gpt2_xl", "dgx_a100_80gb", 1, 8, 512);
  const SearchProblem problem = job.problem();
  SearchOptions options;
  options.fixed = {"cp", "microbatch"};
  const SearchResult found = search(problem, problem.own, options);
  REQUIRE(found.front.size() > 1);
  for (std::size_t i = 1; i < found.front.size(); ++i) {
    CHECK(found.front[i - 1].evaluation.step_time < found.front[i].evaluation.step_time);
    CHECK(found.front[i - 1].evaluation.needed > found.front[i].evaluation.needed);
  }
  CHECK(found.front.front().evaluation.step_time == found.best.front().evaluation.step_time);
}

TEST_CASE("the objective memory finds a plan as small as any on the front") {
  const SearchJob job("gpt2_xl", "dgx_a100_80gb", 1, 8, 512);
  const SearchProblem problem = job.problem();
  SearchOptions options;
  options.fixed = {"cp", "microbatch", "sequence_parallel"};
  const SearchResult fast = search(problem, problem.own, options);
  options.objective = Objective::memory;
  const SearchResult small = search(problem, problem.own, options);
  CHECK(small.best.front().evaluation.needed <= fast.front.back().evaluation.needed);
}

TEST_CASE("a search that is stopped says so and keeps what it found") {
  const SearchJob job("gpt2_xl", "dgx_a100_80gb", 1, 8, 512);
  const SearchProblem problem = job.problem();
  SearchOptions options;
  std::atomic<bool> stop{false};
  options.stop = [&] { return stop.load(); };
  options.progress = [&](const SearchProgress& now) {
    if (now.doing == "evaluating") stop = true;
  };
  const SearchResult found = search(problem, problem.own, options);
  CHECK(found.interrupted);
  CHECK(found.evaluated > 0);
  CHECK_FALSE(found.best.empty());
  stop = true;
  const SearchResult nothing = search(problem, problem.own, options);
  CHECK(nothing.interrupted);
  CHECK(nothing.best.empty());
}

TEST_CASE("without time for all plans the quickest are there, and what is left is counted and bounded") {
  const SearchJob job("gpt2_xl", "dgx_a100_80gb", 1, 8, 512);
  const SearchProblem problem = job.problem();
  SearchOptions options;
  options.fixed = {"cp", "microbatch"};
  const SearchResult whole = search(problem, problem.own, options);
  options.time_spent = [] { return 1.0; };
  const SearchResult short_one = search(problem, problem.own, options);
  CHECK(whole.left == 0);
  CHECK(whole.evaluated > short_one.evaluated);
  CHECK_FALSE(short_one.interrupted);
  CHECK(short_one.lowered == 0);
  CHECK(short_one.left > 0);
  CHECK(short_one.fit >= short_one.bounded + short_one.left);
  REQUIRE_FALSE(short_one.best.empty());
  const Seconds found = whole.best.front().evaluation.step_time;
  CHECK(std::min(short_one.best.front().evaluation.step_time, short_one.least_left) <= found);
  CHECK(short_one.best.front().evaluation.step_time >= found);
}

TEST_CASE("no time is enough for a plan that fits, and closed forms of a space that is listed keep to theirs") {
  const SearchJob job("gpt2_xl", "dgx_a100_80gb", 1, 8, 512);
  const SearchProblem problem = job.problem();
  SearchOptions options;
  options.fixed = {"offload", "cp"};
  const SearchResult whole = search(problem, problem.own, options);
  int asked = 0;  // Between plans: the guided search is late at once, closed forms after some of them.
  options.time_spent = [&] { return ++asked < 200 ? kGuideShare : kClosedFormShare; };
  const SearchResult cut = search(problem, problem.own, options);
  CHECK(asked >= 200);
  CHECK_FALSE(cut.best.empty());
  CHECK(cut.evaluated < whole.evaluated);
  options.time_spent = [] { return 2.0; };  // Later than any part of a search may be.
  CHECK_FALSE(search(problem, problem.own, options).best.empty());
}

TEST_CASE("parts of a search hold the best of the whole") {
  const SearchJob job("gpt2_xl", "dgx_a100_80gb", 1, 8, 512);
  const SearchProblem problem = job.problem();
  SearchOptions options;
  options.fixed = {"offload", "cp", "microbatch"};
  const SearchResult whole = search(problem, problem.own, options);
  std::vector<Found> joined;
  std::size_t legal = 0;
  for (int i = 0; i < 3; ++i) {
    options.shard = {i, 3};
    const SearchResult part = search(problem, problem.own, options);
    legal += part.legal;
    joined.insert(joined.end(), part.best.begin(), part.best.end());
  }
  rank(joined, options.objective);
  joined.resize(whole.best.size());
  CHECK(listed(joined) == listed(whole.best));
  CHECK(legal >= whole.legal);
}
