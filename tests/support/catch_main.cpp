#ifdef REHEARSE_CATCH2_V3
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif
#include <iostream>

#include "tests/support/skip.hpp"

namespace {
bool skipped = false;
constexpr int kSkipped = 77;  // SKIP_RETURN_CODE in .cmake/RehearseTest.cmake
}  // namespace

void rehearse::test::note_skip(const std::string& reason) {
  skipped = true;
  std::cout << "skipped: " << reason << std::endl;
}

int main(int argc, char* argv[]) {
  const int failed = Catch::Session().run(argc, argv);
  return failed == 0 && skipped ? kSkipped : failed;
}
