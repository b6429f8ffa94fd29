#include "core/cli/run/optional_parts.hpp"
#include "sim/simgrid_clock.hpp"
#include "sim/simgrid_facade.hpp"

namespace rehearse::cli {

std::unique_ptr<PlayClock> make_simgrid_clock(const Cluster& cluster) {
  return std::make_unique<sim::SimGridClock>(cluster);
}
std::string simgrid_version() { return sim::simgrid_version(); }

}  // namespace rehearse::cli
