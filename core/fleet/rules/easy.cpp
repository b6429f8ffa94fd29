// Backfill with one reservation (EASY: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995): the first job that has
// no room is promised the earliest moment at which it will have some, by what owners said of running jobs; others pass
// if they end by then, or stand on GPUs that it will not need.

#include <algorithm>
#include <set>

#include "core/fleet/engine/pass.hpp"

namespace rehearse::fleet {

namespace {

struct Promise {
  double time = kNever;
  Holding held{};  ///< Where the job will stand.
};

/// When running jobs have left enough for `j`, if they end as their owners said.
Promise promise_to(Engine& e, JobState& j) {
  std::vector<JobState*> leaving;
  for (const JobId id : e.running()) leaving.push_back(&e.job(id));
  const auto later = [&e](const JobState* a, const JobState* b) { return e.ends_before(*b, *a); };
  std::make_heap(leaving.begin(), leaving.end(), later);
  std::vector<JobState*> gone;
  Promise out;
  const Request& r = e.shape(j).request;
  while (!leaving.empty()) {
    std::pop_heap(leaving.begin(), leaving.end(), later);
    gone.push_back(leaving.back());
    leaving.pop_back();
    e.machines().give(gone.back()->held);
    if (auto held = e.placer().place(e.machines(), j.shape, r.elastic() ? r.min_gpus : r.gpus, e.pools_of(j))) {
      out = {e.expected_end(*gone.back()), std::move(*held)};
      e.machines().give(out.held);
      break;
    }
  }
  for (auto g = gone.rbegin(); g != gone.rend(); ++g) e.machines().take_again((*g)->held);
  return out;
}

/// The part of a promise that is free now.
Holding free_part(const Machines& m, const Holding& held) {
  Holding out;
  std::size_t next = 0;
  for (const Holding::Host& h : held.hosts) {
    Holding::Host part{h.node, 0, 0, 0};
    for (int i = 0; i < h.slices; ++i) {
      Slice s = held.slices[next++];
      const Machines::State& n = m[s.node];
      if (const int free = n.up ? m.gpu_free(n, s.gpu) : 0; free > 0) {
        s.milli = static_cast<std::int16_t>(std::min<int>(s.milli, free));
        out.slices.push_back(s);
        ++part.slices;
      }
    }
    if (part.slices > 0) out.hosts.push_back(part);
  }
  return out;
}

class Easy final : public Rule {
 public:
  explicit Easy(int depth) : depth_(depth) {}

  void look(Pass& pass) override {
    Engine& e = pass.engine();
    JobState* head = nullptr;
    Promise promise;
    std::set<int> full;  // Groups whose jobs have no room beside what is promised: nothing is given back in a look.
    int tried = 0;
    while (JobState* j = pass.next()) {
      if (!head) {
        const Tried tried_now = pass.start(*j);
        if (tried_now == Tried::started) continue;
        if (tried_now == Tried::no_room) {
          head = j;
          promise = promise_to(e, *j);
        }
        tried_now == Tried::quota ? pass.set_aside(*j) : pass.pass_over(*j);
      } else if (++tried > depth_ || !e.admits(*j, e.shape(*j).least_milli)) {
        pass.set_aside(*j);
      } else {
        try_behind(pass, *j, promise, full);
      }
    }
  }

 private:
  static void try_behind(Pass& pass, JobState& j, const Promise& promise, std::set<int>& full) {
    Engine& e = pass.engine();
    int gpus = 0;
    if (pass.now() + e.expected_time(j) <= promise.time) {
      if (auto held = pass.room(j, gpus))
        pass.start_on(j, std::move(*held), gpus);
      else
        pass.set_aside(j);
      return;
    }
    const int group = e.waiting().group_of(j);
    if (full.contains(group)) return pass.pass_over(j);
    const Holding kept = free_part(e.machines(), promise.held);
    e.machines().take_again(kept);
    const Request& r = e.shape(j).request;
    gpus = r.elastic() ? r.min_gpus : r.gpus;
    auto held = e.placer().place(e.machines(), j.shape, gpus, e.open_pools(j, e.shape(j).least_milli));
    e.machines().give(kept);
    if (held) return pass.start_on(j, std::move(*held), gpus);
    full.insert(group);
    pass.pass_over(j);
  }

  int depth_;
};

const bool registered_easy = rules().add(
    {"easy",
     "others pass where the first job that has no room is not delayed",
     {{"easy.depth", "jobs that are tried behind it", "500"}},
     [](const Parameters& p) { return std::make_unique<Easy>(static_cast<int>(p.get("easy.depth", 500))); }});

}  // namespace

}  // namespace rehearse::fleet
