#include "core/lesson/run_figures.hpp"

#include <limits>

#include <nlohmann/json.hpp>

#include "core/config/object_reader.hpp"
#include "core/config/override.hpp"
#include "core/plan/plan.hpp"

namespace rehearse {

namespace {
constexpr Seconds kNever{std::numeric_limits<double>::infinity()};
}

ReliabilitySettings reliability_of(const LessonPlan& plan, const std::vector<std::string>& changes,
                                   const std::string& where) {
  nlohmann::json document{{"reliability", nlohmann::json::parse(plan.reliability)}};
  for (const std::string& change : changes)
    place(document, parse_override(change, "reliability.restart=5min", [](const std::string& key) { return key; }));
  ObjectReader reader(document.at("reliability"), where);
  return read_reliability(reader);
}

Figures run_figures(const ReliabilitySettings& settings, const GoodputRequest& request) {
  const Goodput g = goodput(settings, request);
  const Seconds blocking = settings.checkpoint_blocking * g.write;
  // Of a run that nothing stops.
  const double unstopped = checkpoint_efficiency(g.interval, blocking, Seconds{0}, kNever);
  return {{"run.mtbf", g.mtbf.value()},
          {"run.stops_per_day", g.interruptions_per_day},
          {"run.checkpoint", request.checkpoint.value()},
          {"run.write", g.write.value()},
          {"run.interval", g.interval.value()},
          {"run.restart", g.restart.value()},
          {"run.training", g.checkpoints},
          {"run.writing", 1 - unstopped},
          {"run.lost", unstopped - g.checkpoints}};
}

}  // namespace rehearse
