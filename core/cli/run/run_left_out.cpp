#include "core/base/error.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verbs.hpp"

namespace rehearse::cli {

Verb run_verb() {
  return {"run",
          "Train for real. Left out of this build.",
          {"rehearse run scenarios/tiny_gpt2.json --device cpu"},
          {scenario_positional()},
          {},
          {},
          [](const Arguments&, Console&) -> int {
            throw Error(ErrorKind::unavailable, "this build only simulates", "run",
                        "./bootstrap build adds what executes, and takes some minutes");
          },
          true};
}

}  // namespace rehearse::cli
