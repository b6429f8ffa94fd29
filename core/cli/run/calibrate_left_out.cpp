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
            throw Error(ErrorKind::unavailable, "this build only simulates", "calibrate",
                        "./bootstrap build adds what executes, and takes some minutes");
          },
          true};
}

}  // namespace rehearse::cli
