#include "core/base/error.hpp"
#include "core/cli/verbs.hpp"

namespace rehearse::cli {

Verb calibrate_verb() {
  return {"calibrate",
          "Measure this machine. Left out of this build.",
          {"rehearse calibrate --device cpu -o this_machine.json"},
          {},
          {},
          {},
          [](const Arguments&, Console&) -> int {
            throw Error(ErrorKind::unavailable, "this build has no real back end", "calibrate",
                        "./bootstrap build builds all of it");
          }};
}

}  // namespace rehearse::cli
