// Parts that the program may have and the module never has: starting ranks is left to the program.

#include "core/base/error.hpp"
#include "core/cli/run/optional_parts.hpp"
#include "core/cli/run/validate_run.hpp"
#include "core/cli/verbs.hpp"

namespace rehearse::cli {

namespace {

Error only_simulates(const std::string& verb) {
  return {ErrorKind::unavailable, "the Python module only simulates", verb,
          "ranks are started by the program: rehearse " + verb + " --help"};
}

Verb left_out(const std::string& name) {
  return {name, "", {}, {}, {}, {}, [name](const Arguments&, Console&) -> int { throw only_simulates(name); }, true};
}

}  // namespace

Verb run_verb() { return left_out("run"); }
Verb calibrate_verb() { return left_out("calibrate"); }
int validate_run(const Arguments&, Console&) { throw only_simulates("validate"); }
std::vector<Option> validate_run_options() { return {}; }
std::vector<std::string> describe_cuda_devices() { return {"none: the Python module only simulates"}; }

}  // namespace rehearse::cli
