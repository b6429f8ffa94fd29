#include "core/base/error.hpp"
#include "core/cli/run/optional_parts.hpp"

namespace rehearse::cli {

std::unique_ptr<PlayClock> make_simgrid_clock(const Cluster&) {
  throw Error(ErrorKind::unavailable, "this build has no SimGrid", "--backend",
              "'--backend analytic' plays without contention");
}
std::string simgrid_version() { return {}; }

}  // namespace rehearse::cli
