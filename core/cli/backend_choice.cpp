#include "core/cli/backend_choice.hpp"

#include <algorithm>

#include "core/play/backend.hpp"

namespace rehearse::cli {

Option backend_option() {
  return {"--backend", "NAME", "what plays the step: 'rehearse list backends'",
          "simgrid where it is built in, else analytic"};
}

std::string chosen_backend(const Arguments& arguments, Console& console) {
  const std::vector<std::string> known = backends().names();
  const bool simgrid = std::find(known.begin(), known.end(), "simgrid") != known.end();
  if (!arguments.has("--backend")) {
    if (simgrid) return "simgrid";
    console.err << "note: SimGrid is not built in; the analytic back end sees no contention on shared links\n";
    return "analytic";
  }
  const std::string name = arguments.text("--backend");
  if (name == "simgrid" && !simgrid)
    throw Error(ErrorKind::unavailable, "SimGrid is not built in", "--backend simgrid",
                "install libsimgrid-dev and build again, or use --backend analytic");
  try {
    return backends().at(name).name;
  } catch (Error& e) {
    e.where = "--backend";
    throw;
  }
}

}  // namespace rehearse::cli
