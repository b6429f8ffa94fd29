#pragma once
// Skipping a test case whose device or library the machine lacks, the same way with Catch2 2 and 3.

#include <string>

namespace rehearse::test {

/// Says why on stdout. The program then ends with the status that ctest shows as skipped, unless a case failed.
void note_skip(const std::string& reason);

}  // namespace rehearse::test

/// Leaves the test case; `reason` says what is missing.
#define REHEARSE_SKIP(reason)            \
  do {                                   \
    ::rehearse::test::note_skip(reason); \
    SUCCEED("skipped");                  \
    return;                              \
  } while (false)
