#include "core/play/backend.hpp"

#include <utility>

#include "core/play/clocks/analytic_clock.hpp"
#include "core/play/player/player.hpp"

namespace rehearse {

RunResult Backend::run(const Program& program, const Cluster& cluster, const CostModel& cost, const RunOptions& options,
                       TraceSink& sink) {
  const PlayedProgram alone{program, cost, options, sink};
  return std::move(run_together(cluster, {&alone, 1}).front());
}

Registry<BackendFactory>& backends() {
  static Registry<BackendFactory> registry("backend");
  return registry;
}

namespace {

class AnalyticBackend final : public Backend {
 public:
  std::vector<RunResult> run_together(const Cluster& cluster, std::span<const PlayedProgram> programs) override {
    AnalyticClock clock(cluster);
    return play(cluster, programs, clock, "analytic");
  }
};

const bool registered_analytic =
    backends().add({"analytic", "every flow has its wires to itself; no contention", {}, [] {
                      return std::make_unique<AnalyticBackend>();
                    }});

}  // namespace
}  // namespace rehearse
