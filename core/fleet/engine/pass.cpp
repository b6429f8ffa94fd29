#include "core/fleet/engine/pass.hpp"

#include <algorithm>

namespace rehearse::fleet {

Pass::Pass(Engine& engine)
    : engine_(engine), apart_(engine.quota().separates()), heaps_(apart_ ? engine.quota().queues() : 1) {
  std::vector<WaitingGroup>& groups = engine.waiting().groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g].looked = false;
    if (groups[g].jobs.empty()) continue;
    const int line = line_of(groups[g].queue);
    if (nth(heaps_, line).empty()) lines_.push_back(line);
    push(line, static_cast<int>(g), groups[g].jobs.begin());
  }
}

void Pass::push(int line, int group, std::set<std::pair<OrderKey, JobId>>::const_iterator at) {
  nth(heaps_, line).push({at->first, group, at});
}

JobState* Pass::next() {
  for (JobState* j = first(); j; advance(*j), j = first())
    if (engine_.order().ready(*j)) return j;
  return nullptr;
}

JobState* Pass::first() {
  int first = -1;
  double low = 0;
  for (const int line : lines_) {
    const Heap& heap = nth(heaps_, line);
    if (heap.empty()) continue;
    double rank = 0;
    if (apart_) {
      const JobState& head = engine_.job(heap.top().at->second);
      rank = engine_.quota().rank(line, engine_.shape(head).least_milli, engine_.pools_of(head));
    }
    if (first < 0 || rank < low || (rank == low && heap.top().key < nth(heaps_, first).top().key))
      first = line, low = rank;
  }
  return first < 0 ? nullptr : &engine_.job(nth(heaps_, first).top().at->second);
}

/// Moves its group's cursor to the job behind it.
void Pass::advance(JobState& j) {
  const int line = line_of(j.queue);
  const Cursor c = nth(heaps_, line).top();
  nth(heaps_, line).pop();
  const auto behind = std::next(c.at);
  if (behind != engine_.waiting()[c.group].jobs.end()) push(line, c.group, behind);
}

void Pass::pass_over(JobState& j) { advance(j); }
void Pass::set_aside(JobState& j) { nth(heaps_, line_of(j.queue)).pop(); }
void Pass::set_aside_queue(JobState& j) { nth(heaps_, line_of(j.queue)) = {}; }

void Pass::note(const JobState& j, Why why) {
  WaitingGroup& g = engine_.waiting()[engine_.waiting().group_of(j)];
  if (g.looked) return;
  g.until(now());
  g.why = why;
  g.looked = true;
}

std::optional<Holding> Pass::room(JobState& j, int& gpus) {
  WaitingGroup& g = engine_.waiting()[engine_.waiting().group_of(j)];
  if (g.no_room_at == engine_.releases()) return std::nullopt;
  const Request& r = engine_.shape(j).request;
  const int least = r.elastic() ? r.min_gpus : r.gpus;
  const int step = r.pod_gpus > 0 ? r.pod_gpus : 1;
  for (gpus = r.gpus; gpus >= least; gpus -= step) {
    const std::vector<int> open = engine_.open_pools(j, static_cast<std::int64_t>(gpus) * r.milli);
    if (open.empty()) continue;
    if (std::optional<Holding> held = engine_.placer().place(engine_.machines(), j.shape, gpus, open)) return held;
  }
  g.no_room_at = engine_.releases();
  note(j, engine_.placer().room() == Room::fragments ? Why::fragments : Why::busy);
  return std::nullopt;
}

void Pass::start_on(JobState& j, Holding held, int gpus) {
  advance(j);
  engine_.start(j, std::move(held), gpus);
}

Tried Pass::start(JobState& j) {
  const std::int64_t least = engine_.shape(j).least_milli;
  const bool admitted = engine_.admits(j, least);
  if (admitted) {
    int gpus = 0;
    if (std::optional<Holding> held = room(j, gpus)) {
      start_on(j, std::move(*held), gpus);
      return Tried::started;
    }
    if (shrink_others(j)) return Tried::started;
  }
  for (const int pool : engine_.pools_of(j))
    if (engine_.quota().may_claim(j.queue, least, pool) && claim(j, pool)) return Tried::started;
  if (!admitted) note(j, engine_.most_free(j) < least ? Why::busy : Why::quota);
  return admitted ? Tried::no_room : Tried::quota;
}

}  // namespace rehearse::fleet
