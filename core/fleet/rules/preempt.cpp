// Jobs compete anew at each look: in order, each that fits into what those before it leave runs, and running jobs that
// do not fit any more are stopped.

#include <algorithm>

#include "core/fleet/engine/pass.hpp"

namespace rehearse::fleet {

namespace {

class Preempt final : public Rule {
 public:
  void look(Pass& pass) override {
    Engine& e = pass.engine();
    std::vector<std::pair<OrderKey, JobState*>> running;
    for (const JobId id : e.running()) running.emplace_back(e.key(e.job(id)), &e.job(id));
    std::sort(running.begin(), running.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    choose(pass, running);
    start_chosen(pass);
    // What no chosen job could take goes to whoever can.
    Pass rest(e);
    while (JobState* j = rest.next())
      if (!e.admits(*j, e.shape(*j).least_milli) || !start_if_room(rest, *j)) rest.set_aside(*j);
  }

 private:
  static bool start_if_room(Pass& pass, JobState& j) {
    int gpus = 0;
    std::optional<Holding> held = pass.room(j, gpus);
    if (!held) return false;
    pass.start_on(j, std::move(*held), gpus);
    return true;
  }

  /// Counts GPUs in order: whose turn it is, and who is displaced.
  void choose(Pass& pass, const std::vector<std::pair<OrderKey, JobState*>>& running) {
    Engine& e = pass.engine();
    chosen_.clear();
    displaced_.clear();
    std::vector<std::int64_t> free;
    for (std::size_t p = 0; p < e.machines().pools().size(); ++p)
      free.push_back(e.machines().free_milli(static_cast<int>(p)));
    std::vector<std::pair<OrderKey, JobState*>> compete;
    for (const auto& [key, j] : running) {
      if (!e.stoppable(*j)) continue;
      nth(free, e.pool_of(j->held)) += j->milli;
      e.count_out(j->queue, j->held);
      compete.emplace_back(key, j);
    }
    std::vector<Counted> counted;
    std::size_t next = 0;
    JobState* waits = pass.next();
    while (next < compete.size() || waits) {
      const bool runs = next < compete.size() && (!waits || compete[next].first < e.key(*waits));
      JobState& j = runs ? *compete[next++].second : *waits;
      if (runs) {
        const int pool = e.pool_of(j.held);
        const bool stays = nth(free, pool) >= j.milli && e.admits_again(j);
        if (stays)
          nth(free, pool) -= j.milli, count(e, counted, {j.queue, pool, amounts_of(j.held)});
        else
          displaced_.push_back(&j);
        continue;
      }
      const Shape& s = e.shape(j);
      const std::vector<int>& pools = e.pools_of(j);
      const auto room = std::find_if(pools.begin(), pools.end(), [&](int p) {
        return nth(free, p) >= s.least_milli && e.quota().admits(j.queue, s.least_milli, p);
      });
      if (room != pools.end()) {
        nth(free, *room) -= s.least_milli;
        count(e, counted, {j.queue, *room, {s.least_milli, 0, 0}});
        chosen_.push_back(&j);
        pass.pass_over(j);
      } else {
        pass.set_aside(j);
      }
      waits = pass.next();
    }
    for (const Counted& c : counted) e.count(c.queue, -c.amounts, c.pool);
    for (const auto& [key, j] : compete) e.count_in(j->queue, j->held);
  }

  struct Counted {
    int queue, pool;
    Amounts amounts;
  };
  static void count(Engine& e, std::vector<Counted>& counted, const Counted& more) {
    e.count(more.queue, more.amounts, more.pool);
    counted.push_back(more);
  }

  /// Displaced jobs make room, the last in order first, as far as chosen ones need it.
  void start_chosen(Pass& pass) {
    Engine& e = pass.engine();
    std::vector<JobState*> lifted;
    for (JobState* j : chosen_) {
      const Request& r = e.shape(*j).request;
      const int gpus = r.elastic() ? r.min_gpus : r.gpus;
      for (;;) {
        const std::vector<int> open = e.open_pools(*j, e.shape(*j).least_milli);
        if (auto held = e.placer().place(e.machines(), j->shape, gpus, open)) {
          e.start(*j, std::move(*held), gpus);
          break;
        }
        if (displaced_.empty()) break;
        e.lift(*displaced_.back());
        lifted.push_back(displaced_.back());
        displaced_.pop_back();
      }
    }
    // The first in order stay after all, where nobody stands in their place.
    for (auto j = lifted.rbegin(); j != lifted.rend(); ++j) {
      if (e.machines().still_free((*j)->held) && e.admits_again(**j))
        e.put_back(**j);
      else
        e.stop(**j, Stop::preempted, true);
    }
  }

  std::vector<JobState*> chosen_, displaced_;
};

const bool registered_preempt =
    rules().add({"preempt", "jobs compete anew at each event, and those behind are stopped", {}, [](const Parameters&) {
                   return std::make_unique<Preempt>();
                 }});

}  // namespace

}  // namespace rehearse::fleet
