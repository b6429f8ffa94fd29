#include "core/api/backend_choice.hpp"

#include <algorithm>

#include "core/play/backend.hpp"

namespace rehearse {

std::string default_backend() {
  const std::vector<std::string> known = backends().names();
  return std::find(known.begin(), known.end(), "simgrid") != known.end() ? "simgrid" : "analytic";
}

std::string known_backend(const std::string& name) {
  if (name.empty()) return default_backend();
  if (name == "simgrid" && default_backend() != name)
    throw Error(ErrorKind::unavailable, "SimGrid is not built in", "backend simgrid",
                "install libsimgrid-dev and build again, or take the back end 'analytic'");
  try {
    return backends().at(name).name;
  } catch (Error& e) {
    e.where = "backend";
    throw;
  }
}

}  // namespace rehearse
