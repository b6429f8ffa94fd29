#pragma once
// Running a command line inside the test.

#include <sstream>

#include "core/base/error.hpp"
#include "core/cli/verb.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::test {

struct Outcome {
  int code = 0;
  std::string out, err;
  std::string what, where, hint;  ///< Of the error thrown; empty when none was.
};

inline Outcome rehearse_with(const std::vector<std::string>& words) {
  std::ostringstream out, err;
  cli::Console console{out, err, {100, false}};
  Outcome o;
  try {
    o.code = cli::run_command_line(words, console);
  } catch (const Error& e) {
    o.code = static_cast<int>(e.kind);
    o.what = e.what();
    o.where = e.where;
    o.hint = e.hint;
  }
  o.out = out.str();
  o.err = err.str();
  return o;
}

inline std::string scenario(const std::string& name) {
  return rehearse::testing::source_path("scenarios/") + name + ".json";
}

}  // namespace rehearse::test
