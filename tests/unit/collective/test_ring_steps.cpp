// The steps of a ring all-reduce, done by hand: everyone ends with every sum, and sends no more than 2(n - 1)/n.

#include <map>

#include "core/collective/ring_steps.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

TEST_CASE("a ring's steps leave the sum of all at every rank, by 2(n - 1) sends of each", "[ring]") {
  for (const int n : {1, 2, 3, 4, 7, 16}) {
    // Rank r begins with 10^r-like parts that no other sum equals: 1 + r of piece p, times a prime.
    std::vector<std::vector<long>> held(static_cast<std::size_t>(n));
    for (int r = 0; r < n; ++r)
      for (int p = 0; p < n; ++p) held[static_cast<std::size_t>(r)].push_back((1L << r) + 1000003L * p * (1L << r));
    std::map<int, int> sends;
    int step = -1;
    auto before = held;
    for (const RingStep& s : ring_all_reduce(n)) {
      if (s.step != step) before = held, step = s.step;  // All of a step send what they had at its begin.
      ++sends[s.from];
      const auto to = static_cast<std::size_t>((s.from + 1) % n), piece = static_cast<std::size_t>(s.piece);
      const long comes = before[static_cast<std::size_t>(s.from)][piece];
      held[to][piece] = s.adds ? held[to][piece] + comes : comes;
    }
    INFO(n);
    for (int r = 0; r < n; ++r) {
      CHECK(sends[r] == 2 * (n - 1));
      for (int p = 0; p < n; ++p)
        CHECK(held[static_cast<std::size_t>(r)][static_cast<std::size_t>(p)] == ((1L << n) - 1) * (1 + 1000003L * p));
    }
  }
}
