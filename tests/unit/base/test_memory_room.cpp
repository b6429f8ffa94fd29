#include <sys/resource.h>

#include "core/base/memory_room.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

TEST_CASE("the room is no more than the limit of the process", "[base]") {
  const Bytes all = memory_room();
  REQUIRE(all > Bytes{0});
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  rlimit less = before;
  less.rlim_cur = static_cast<rlim_t>(all.value() / 2);
  REQUIRE(setrlimit(RLIMIT_AS, &less) == 0);
  const Bytes half = memory_room();
  setrlimit(RLIMIT_AS, &before);
  CHECK(half.value() == static_cast<double>(less.rlim_cur));
  CHECK(memory_room() == all);
}
