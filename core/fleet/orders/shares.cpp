// Shares of time, handed out in rounds: each job has a share of the time that it should run, and whoever received least
// of its share so far comes first. Shares are worked out anew when jobs came or went, at the earliest after a while;
// what a job received is counted from there. With the rule `preempt` and a policy.interval this is the round-based
// mechanism of Gavel (Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
// OSDI 2020, section 5; stanford-futuredata/gavel @c4fa400, scheduler/scheduler.py).
//
// What the share is, each from the allocation problem of its paper, for GPUs of one kind:
//   max_min      the least GPU time of any job is as great as can be (Gavel's max-min fairness);
//   equal_time   the same time for each job, whatever its size (Chaudhary et al., "Balancing Efficiency and Fairness in
//                Heterogeneous GPU Clusters for Deep Learning", EuroSys 2020: Gandiva_fair);
//   finish_time  the worst ratio of a job's finish to what it would be with 1/n of the cluster is as small as can be
//                (Mahajan et al., "Themis", NSDI 2020);
//   makespan     all finish together, as early as can be.

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/fleet/order.hpp"

namespace rehearse::fleet {

namespace {

/// A job as the division of time sees it.
struct Wish {
  double gpus;
  double left;       ///< Seconds of work on all its GPUs.
  double since;      ///< Seconds since it arrived.
  double isolated;   ///< Seconds that the work done so far would have taken on an n-th of the cluster.
  double fair = 1;   ///< The share of time that an n-th of the cluster gives it.
  double share = 0;  ///< The result, 0..1.
};

using Divide = void (*)(std::vector<Wish>&, double gpus);

/// Each gets `level` GPUs all the time, or all that it asks for; as many as there are.
void max_min(std::vector<Wish>& jobs, double gpus) {
  std::vector<const Wish*> by_size;
  for (const Wish& w : jobs) by_size.push_back(&w);
  std::sort(by_size.begin(), by_size.end(), [](const Wish* a, const Wish* b) { return a->gpus < b->gpus; });
  double level = 0, left = gpus;
  for (std::size_t i = 0; i < by_size.size(); ++i) {
    level = left / static_cast<double>(by_size.size() - i);
    if (by_size[i]->gpus >= level) break;
    left -= by_size[i]->gpus;
    level = by_size[i]->gpus;
  }
  for (Wish& w : jobs) w.share = std::min(1.0, level / w.gpus);
}

void equal_time(std::vector<Wish>& jobs, double gpus) {
  for (Wish& w : jobs) w.share = std::min(1.0, gpus / static_cast<double>(jobs.size()));
}

/// Least `limit` for which shares as of `share(job, limit)` fit the cluster and lie within 1, by bisection.
template <class Share>
void least_limit(std::vector<Wish>& jobs, double gpus, double low, Share share) {
  const auto fits = [&](double limit) {
    double sum = 0;
    for (Wish& w : jobs) {
      w.share = share(w, limit);
      if (!(w.share >= 0 && w.share <= 1 + 1e-12)) return false;
      sum += w.share * w.gpus;
    }
    return sum <= gpus * (1 + 1e-12);
  };
  double high = std::max(1.0, 2 * low);
  while (!fits(high)) high *= 2;
  constexpr int kHalvings = 60;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (fits(middle) ? high : low) = middle;
  }
  fits(high);
}

void finish_time(std::vector<Wish>& jobs, double gpus) {
  least_limit(jobs, gpus, 0, [](const Wish& w, double ratio) {
    const double time = ratio * (w.isolated + w.left / w.fair) - w.since;
    return time > 0 ? w.left / time : kNever;
  });
}

void makespan(std::vector<Wish>& jobs, double gpus) {
  least_limit(jobs, gpus, 0, [](const Wish& w, double end) { return w.left / end; });
}

class Shares final : public Order {
 public:
  Shares(Divide how, const Parameters& p)
      : divide_(how), reset_(p.get("shares.reset", kReset)), credit_(p.get("shares.credit", kCredit)) {}

  OrderKey key(const JobState& j, double now) const override {
    const Account* const a = account_of(j.id);
    if (!a || a->share <= 0) return {kNever, a ? -a->owed : 0, 0, j.number};
    return {(j.attained_at(now) - a->attained + credit_) / a->share, -a->owed, 0, j.number};
  }

  void arrived(JobState&) override { changed_ = true; }
  void ended(const JobState&) override { changed_ = true; }

  /// A job without a share waits for the next time at which shares are worked out, as in that program.
  [[nodiscard]] bool ready(const JobState& j) const override { return account_of(j.id) != nullptr; }
  [[nodiscard]] double again() const override { return changed_ ? weighed_ + reset_ : kNever; }
  [[nodiscard]] bool weighs(double now) const override {
    return changed_ && (now >= weighed_ + reset_ || weighed_ <= 0);
  }

  void weigh(const std::vector<JobState*>& jobs, double now, std::int64_t capacity) override {
    settle(jobs, now);
    hand_out(jobs, now, static_cast<double>(capacity) / kWholeGpu);
    weighed_ = now;
    changed_ = false;
  }

 private:
  struct Account {
    double share = 0;
    double attained = 0;  ///< When shares were worked out last.
    double owed = 0;      ///< Seconds that it should have run and did not, over all times.
    double isolated = 0, left = 0, fair = 0;
    bool open = false;  ///< Since shares were first worked out with this job.
  };

  [[nodiscard]] const Account* account_of(JobId id) const {
    const std::size_t i = at(id);
    return i < accounts_.size() && accounts_[i].open ? &accounts_[i] : nullptr;
  }

  /// Counts what jobs received against their shares.
  void settle(const std::vector<JobState*>& jobs, double now) {
    for (const JobState* j : jobs) {
      if (accounts_.size() <= at(j->id)) accounts_.resize(at(j->id) + 1);
      Account& a = nth(accounts_, j->id);
      const double got = j->attained_at(now);
      a.owed += a.share * (now - weighed_) - (got - a.attained);
      a.attained = got;
      const double left = j->left_at(now);
      if (a.fair > 0) a.isolated += std::max(0.0, a.left - left) / a.fair;
      a.left = left;
      a.open = true;
    }
  }

  void hand_out(const std::vector<JobState*>& jobs, double now, double gpus) {
    std::vector<Wish> wishes;
    for (const JobState* j : jobs) {
      const Account& a = nth(accounts_, j->id);
      const double wants =
          std::max(1e-3, static_cast<double>(j->job->request.gpus) * j->job->request.milli / kWholeGpu);
      const double fair = std::min(1.0, gpus / static_cast<double>(jobs.size()) / wants);
      wishes.push_back({wants, std::max(a.left, 1e-6), now - j->arrival, a.isolated, fair});
    }
    divide_(wishes, gpus);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      Account& a = nth(accounts_, jobs[i]->id);
      a.share = wishes[i].share;
      a.fair = wishes[i].fair;
    }
  }

  // Of that program: least time between two resets, and half a round of six minutes as if it had been received.
  static constexpr double kReset = 1000, kCredit = 180;

  Divide divide_;
  double reset_, credit_;
  double weighed_ = 0;
  bool changed_ = false;           ///< Jobs came or went since then.
  std::vector<Account> accounts_;  ///< By job.
};

OrderFactory factory_of_shares(Divide divide) {
  return [divide](const Parameters& p) { return std::make_unique<Shares>(divide, p); };
}

std::vector<ParameterHelp> rounds() {
  return {{"shares.reset", "least seconds after which shares are worked out anew", "1000"},
          {"shares.credit", "seconds that each job counts as having received to begin with", "180"}};
}

const bool registered_max_min = orders().add(
    {"max_min", "whoever has least of an equal share of GPUs (Gavel)", rounds(), factory_of_shares(max_min)});
const bool registered_equal_time =
    orders().add({"equal_time", "whoever has least of an equal share of time (Gandiva-fair)", rounds(),
                  factory_of_shares(equal_time)});
const bool registered_finish_time =
    orders().add({"finish_time", "whoever has least of what brings it to an end as with its part alone (Themis)",
                  rounds(), factory_of_shares(finish_time)});
const bool registered_makespan = orders().add(
    {"makespan", "whoever has least of what lets all end together", rounds(), factory_of_shares(makespan)});

}  // namespace

}  // namespace rehearse::fleet
