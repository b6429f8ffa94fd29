// Back end "simgrid": it is known wherever this file is linked.

#include "core/play/backend.hpp"
#include "core/play/player/player.hpp"
#include "sim/simgrid_clock.hpp"

namespace rehearse {
namespace {

class SimGridBackend final : public Backend {
 public:
  std::vector<RunResult> run_together(const Cluster& cluster, std::span<const PlayedProgram> programs) override {
    sim::SimGridClock clock(cluster);
    return play(cluster, programs, clock, "simgrid");
  }
};

const bool registered_simgrid =
    backends().add({"simgrid", "transfers share the cluster's links max-min fairly (SimGrid)", {}, [] {
                      return std::make_unique<SimGridBackend>();
                    }});

}  // namespace
}  // namespace rehearse
