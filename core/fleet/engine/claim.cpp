// How a candidate gets GPUs that others hold: it takes back what its queue lent, or elastic jobs shrink.

#include <algorithm>
#include <tuple>

#include "core/fleet/engine/pass.hpp"

namespace rehearse::fleet {

namespace {

/// Jobs that may make room, in the order in which they are asked: the least important, then the last that started, as
/// Kueue and KAI do.
std::vector<JobState*> in_order_of_asking(std::vector<JobState*> out) {
  std::sort(out.begin(), out.end(), [](const JobState* a, const JobState* b) {
    return std::make_tuple(a->job->priority, -a->began, -a->number) <
           std::make_tuple(b->job->priority, -b->began, -b->number);
  });
  return out;
}

}  // namespace

bool Pass::claim(JobState& j, int pool) {
  const auto here = [&](int other) { return engine_.quota().same(pool, other); };
  std::vector<int> pools;
  std::copy_if(engine_.pools_of(j).begin(), engine_.pools_of(j).end(), std::back_inserter(pools), here);
  if (pools.front() != pool) return false;  // It was tried with those before it.
  std::vector<JobState*> able;
  for (const JobId id : engine_.running()) {
    JobState& v = engine_.job(id);
    if (engine_.stoppable(v) && here(engine_.pool_of(v.held)) && engine_.quota().yields(j, v, pool)) able.push_back(&v);
  }
  std::vector<JobState*> lifted;
  std::optional<Holding> held;
  const Shape& shape = engine_.shape(j);
  const int gpus = shape.request.elastic() ? shape.request.min_gpus : shape.request.gpus;
  for (JobState* v : in_order_of_asking(able)) {
    if (!engine_.quota().yields(j, *v, pool)) continue;  // Its queue has given enough.
    engine_.lift(*v);
    lifted.push_back(v);
    if (engine_.quota().admits(j.queue, shape.least_milli, pool) &&
        (held = engine_.placer().place(engine_.machines(), j.shape, gpus, pools)))
      break;
  }
  // Whoever was lifted in vain stays; all of them where there is still no room.
  std::vector<JobState*> stopped;
  if (held) engine_.count_in(j.queue, *held);
  for (std::size_t i = lifted.size(); i-- > 0;) {
    JobState& v = *lifted[i];
    if (!held || (engine_.machines().still_free(v.held) && engine_.admits_again(v)))
      engine_.put_back(v);
    else
      stopped.push_back(&v);
  }
  if (!held) return false;
  engine_.count_out(j.queue, *held);
  for (JobState* v : stopped) engine_.stop(*v, Stop::preempted, true);
  start_on(j, std::move(*held), gpus);
  return true;
}

bool Pass::shrink_others(JobState& j) {
  if (!engine_.elastic_runs()) return false;
  std::vector<JobState*> able;
  std::int64_t over = 0;
  for (const JobId id : engine_.running()) {
    JobState& v = engine_.job(id);
    const Shape& s = engine_.shape(v);
    if (!s.request.elastic() || v.milli <= s.least_milli || !engine_.stoppable(v)) continue;
    able.push_back(&v);
    over += v.milli - s.least_milli;
  }
  if (over == 0) return false;
  std::int64_t free = 0;
  for (const int pool : engine_.pools_of(j)) free += engine_.machines().free_milli(pool);
  if (free + over < engine_.shape(j).least_milli) return false;
  // A trial: each shrinks to its least where it stands, until the candidate fits.
  const Shape& shape = engine_.shape(j);
  const int gpus = shape.request.elastic() ? shape.request.min_gpus : shape.request.gpus;
  std::vector<std::pair<JobState*, Holding>> shrunk;
  std::optional<Holding> held;
  for (JobState* v : in_order_of_asking(able)) {
    const int pool = engine_.pool_of(v->held);
    engine_.lift(*v);
    std::optional<Holding> less =
        engine_.placer().place(engine_.machines(), v->shape, engine_.shape(*v).request.min_gpus, {&pool, 1});
    if (!less) {
      engine_.put_back(*v);
      continue;
    }
    engine_.count_in(v->queue, *less);
    shrunk.emplace_back(v, std::move(*less));
    const std::vector<int> open = engine_.open_pools(j, shape.least_milli);
    if ((held = engine_.placer().place(engine_.machines(), j.shape, gpus, open))) break;
  }
  if (held) {
    for (auto& [v, less] : shrunk) engine_.resize(*v, std::move(less), engine_.shape(*v).request.min_gpus);
    start_on(j, std::move(*held), gpus);
    return true;
  }
  for (std::size_t i = shrunk.size(); i-- > 0;) {
    auto& [v, less] = shrunk[i];
    engine_.machines().give(less);
    engine_.count_out(v->queue, less);
  }
  for (auto& [v, less] : shrunk) engine_.put_back(*v);
  return false;
}

}  // namespace rehearse::fleet
