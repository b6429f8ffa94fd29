#include "core/fleet/engine/grow.hpp"

#include <algorithm>

#include "core/fleet/engine/engine.hpp"

namespace rehearse::fleet {

void grow_elastic(Engine& engine) {
  if (!engine.elastic_runs() || engine.waiting().count() > 0) return;
  std::vector<std::pair<OrderKey, JobState*>> able;
  for (const JobId id : engine.running()) {
    JobState& j = engine.job(id);
    if (engine.shape(j).request.elastic() && j.gpus < engine.shape(j).request.gpus && engine.stoppable(j))
      able.emplace_back(engine.key(j), &j);
  }
  std::sort(able.begin(), able.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [k, j] : able) {
    const Request& r = engine.shape(*j).request;
    const int step = r.pod_gpus > 0 ? r.pod_gpus : 1;
    const int pool = engine.pool_of(j->held);
    engine.lift(*j);
    std::optional<Holding> more;
    int gpus = r.gpus;
    for (; gpus > j->gpus && !more; gpus -= step) {
      if (!engine.quota().admits(j->queue, static_cast<std::int64_t>(gpus) * r.milli, pool)) continue;
      more = engine.placer().place(engine.machines(), j->shape, gpus, {&pool, 1});
      if (more) break;
    }
    if (!more) {
      engine.put_back(*j);
      continue;
    }
    engine.count_in(j->queue, *more);
    engine.resize(*j, std::move(*more), gpus);
  }
}

}  // namespace rehearse::fleet
