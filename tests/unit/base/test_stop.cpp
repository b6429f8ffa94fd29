// Work that ends when its caller says so: on the thread of a scope, and on no other unless it was handed on.

#include <atomic>
#include <thread>

#include "core/base/stop.hpp"
#include "core/search/parallel.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

TEST_CASE("work ends where the innermost scope of its thread says so", "[stop]") {
  check_stop();  // Nobody asks.
  bool asked = false;
  const StopScope outer([&] { return asked; });
  check_stop();
  asked = true;
  CHECK_THROWS_AS(check_stop(), Stopped);
  {
    const StopScope inner({});  // This part is not to be ended.
    check_stop();
  }
  CHECK_THROWS_AS(check_stop(), Stopped);
  std::thread([] { CHECK_NOTHROW(check_stop()); }).join();
}

TEST_CASE("a loop that can be stopped hands the scope to its threads, and keeps the turns that were done", "[stop]") {
  std::atomic<bool> asked{false};
  std::atomic<int> done{0};
  const StopScope scope([&] { return asked.load(); });
  parallel_for(
      4, 1000, [&] { return asked.load(); },
      [&](std::size_t i) {
        if (i == 10) asked = true;
        check_stop();
        ++done;
      });
  CHECK(done >= 6);  // Of those before the tenth, all but what the other threads had in hand.
  CHECK(done < 1000);
}

TEST_CASE("a loop that must end by itself does every turn", "[stop]") {
  std::atomic<int> done{0};
  const StopScope scope([] { return true; });
  parallel_for(3, 100, {}, [&](std::size_t) {
    check_stop();
    ++done;
  });
  CHECK(done == 100);
}

TEST_CASE("what ends a turn without the loop being stopped ends the loop", "[stop]") {
  CHECK_THROWS_AS(parallel_for(
                      2, 10, [] { return false; }, [](std::size_t) { throw Stopped(); }),
                  Stopped);
}
