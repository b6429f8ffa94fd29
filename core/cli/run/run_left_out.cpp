#include "core/base/error.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verbs.hpp"

namespace rehearse::cli {

Verb run_verb() {
  return {"run",
          "Train for real. Left out of this build.",
          {"rehearse run scenarios/tiny_gpt2.json --device cpu"},
          {scenario_positional()},
          {{"--device", "NAME", "what computes", "cpu"}},
          {},
          [](const Arguments&, Console&) -> int {
            throw Error(ErrorKind::unavailable, "this build has no real back end", "run",
                        "./bootstrap build builds all of it");
          }};
}

}  // namespace rehearse::cli
