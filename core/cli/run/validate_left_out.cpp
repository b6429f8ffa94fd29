#include "core/base/error.hpp"
#include "core/cli/run/validate_run.hpp"

namespace rehearse::cli {

int validate_run(const Arguments&, Console&) {
  throw Error(ErrorKind::unavailable, "this build has no real back end", "validate",
              "./bootstrap build builds all of it");
}
std::vector<Option> validate_run_options() { return {}; }

}  // namespace rehearse::cli
