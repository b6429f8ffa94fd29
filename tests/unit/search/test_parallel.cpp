#include <set>
#include <stdexcept>
#include <string>

#include "core/search/parallel.hpp"
#include "tests/support/catch.hpp"

using rehearse::parallel_for;

TEST_CASE("every turn is done once, on any number of threads") {
  for (const int jobs : {1, 2, 7}) {
    std::vector<std::atomic<int>> done(100);
    parallel_for(jobs, done.size(), {}, [&](std::size_t i) { ++done[i]; });
    for (const auto& d : done) REQUIRE(d == 1);
  }
}

TEST_CASE("after stop no turn begins") {
  std::atomic<int> done{0};
  parallel_for(
      2, 1000, [&] { return done >= 10; }, [&](std::size_t) { ++done; });
  CHECK(done >= 10);
  CHECK(done <= 12);
}

TEST_CASE("what a turn throws arrives when all threads are done") {
  for (const int jobs : {1, 4})
    CHECK_THROWS_AS(parallel_for(jobs, 50, {},
                                 [](std::size_t i) {
                                   if (i == 20) throw std::runtime_error("turn");
                                 }),
                    std::runtime_error);
}
