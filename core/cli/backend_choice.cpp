#include "core/cli/backend_choice.hpp"

#include "core/api/backend_choice.hpp"
#include "core/base/error.hpp"

namespace rehearse::cli {

Option backend_option() {
  return {"--backend", "NAME", "what plays the step: 'rehearse list backends'",
          "simgrid where it is built in, else analytic"};
}

std::string chosen_backend(const Arguments& arguments, Console& console) {
  if (!arguments.has("--backend")) {
    const std::string name = default_backend();
    if (name != "simgrid")
      console.err << "note: SimGrid is not built in; the analytic back end sees no contention on shared links\n";
    return name;
  }
  try {
    return known_backend(arguments.text("--backend"));
  } catch (Error& e) {
    e.where = "--" + e.where;
    throw;
  }
}

}  // namespace rehearse::cli
