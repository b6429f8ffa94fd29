// Backfill with a reservation for each job (Mu'alem and Feitelson, "Utilization, Predictability, Workloads, and User
// Runtime Estimates in Scheduling the IBM SP2 with Backfilling", IEEE TPDS 12(6), 2001): in order, each job that cannot
// start is promised the earliest time at which enough GPUs will be free for as long as it runs; a job starts now only
// where that delays no promise. Promises count GPUs of a pool, and are made anew at each look, so that jobs that end
// early bring them forward.

#include <algorithm>

#include "core/fleet/engine/pass.hpp"

namespace rehearse::fleet {

namespace {

/// Free thousandths of GPUs of a pool over time: from `times[i]` on `free[i]`.
class Profile {
 public:
  Profile(double now, std::int64_t free) : times_{now}, free_{free} {}

  /// From `time` on there are `milli` more. To be called in order of time, before reserve().
  void release(double time, std::int64_t milli) {
    if (time <= times_.back()) {
      free_.back() += milli;
      return;
    }
    times_.push_back(time);
    free_.push_back(free_.back() + milli);
  }

  /// The first time from which `milli` are free for `length` seconds; kNever where there is none.
  [[nodiscard]] double first(std::int64_t milli, double length) const {
    for (std::size_t i = 0; i < times_.size(); ++i) {
      std::size_t k = i;
      while (k < times_.size() && free_[k] >= milli && times_[k] < times_[i] + length) ++k;
      if (k == times_.size() || (k > i && times_[k] >= times_[i] + length)) return times_[i];
      if (k > i) i = k;  // Nothing between begins better.
    }
    return kNever;
  }

  void reserve(double from, double length, std::int64_t milli) {
    if (from == kNever) return;
    const std::size_t b = cut(from);
    const std::size_t e = cut(from + length);
    for (std::size_t i = b; i < e; ++i) free_[i] -= milli;
  }

 private:
  /// Index of a step that begins at `time`.
  std::size_t cut(double time) {
    const auto at = std::lower_bound(times_.begin(), times_.end(), time) - times_.begin();
    const auto i = static_cast<std::size_t>(at);
    if (i == times_.size() || times_[i] != time) {
      free_.insert(free_.begin() + at, free_[i - 1]);
      times_.insert(times_.begin() + at, time);
    }
    return i;
  }

  std::vector<double> times_;
  std::vector<std::int64_t> free_;
};

std::vector<Profile> profiles(Engine& e) {
  std::vector<JobState*> running;
  for (const JobId id : e.running()) running.push_back(&e.job(id));
  std::sort(running.begin(), running.end(),
            [&e](const JobState* a, const JobState* b) { return e.ends_before(*a, *b); });
  std::vector<Profile> out;
  for (std::size_t p = 0; p < e.machines().pools().size(); ++p)
    out.emplace_back(e.now(), e.machines().free_milli(static_cast<int>(p)));
  for (const JobState* j : running) nth(out, e.pool_of(j->held)).release(e.expected_end(*j), j->milli);
  return out;
}

class Conservative final : public Rule {
 public:
  explicit Conservative(int depth) : depth_(depth) {}

  void look(Pass& pass) override {
    Engine& e = pass.engine();
    std::optional<std::vector<Profile>> free;
    int promised = 0;
    while (JobState* j = pass.next()) {
      if (!free) {
        const Tried tried = pass.start(*j);
        if (tried == Tried::started) continue;
        if (tried == Tried::quota) {
          pass.set_aside(*j);
          continue;
        }
        free = profiles(e);
      }
      if (promised >= depth_ || !e.admits(*j, e.shape(*j).least_milli)) {
        pass.set_aside(*j);
        continue;
      }
      promised += promise(pass, *j, *free) ? 1 : 0;
    }
  }

 private:
  /// False where the job started.
  static bool promise(Pass& pass, JobState& j, std::vector<Profile>& free) {
    Engine& e = pass.engine();
    const Shape& shape = e.shape(j);
    const double length = e.expected_time(j);
    int best = -1;
    double when = kNever;
    for (const int pool : e.open_pools(j, shape.least_milli))
      if (const double t = nth(free, pool).first(shape.least_milli, length); t < when) best = pool, when = t;
    if (best >= 0 && when <= e.now()) {
      const int gpus = shape.request.elastic() ? shape.request.min_gpus : shape.request.gpus;
      if (auto held = e.placer().place(e.machines(), j.shape, gpus, {&best, 1})) {
        nth(free, best).reserve(e.now(), length, shape.least_milli);
        pass.start_on(j, std::move(*held), gpus);
        return false;
      }
    }
    if (best >= 0) nth(free, best).reserve(when, length, shape.least_milli);
    pass.pass_over(j);
    return true;
  }

  int depth_;
};

const bool registered_conservative =
    rules().add({"conservative",
                 "others pass where no job before them is delayed",
                 {{"conservative.depth", "jobs that get a promise", "50"}},
                 [](const Parameters& p) {
                   return std::make_unique<Conservative>(static_cast<int>(p.get("conservative.depth", 50)));
                 }});

}  // namespace

}  // namespace rehearse::fleet
