// Turns: a job that held GPUs for one time slice goes behind all others, as gang scheduling with time slices does. With
// the rule `preempt`, and slices short beside jobs, those that want the same GPUs share them equally: processor
// sharing. Ousterhout, "Scheduling Techniques for Concurrent Systems" (ICDCS 1982); for training, Xiao et al.,
// "Gandiva" (OSDI 2018); Slurm's PreemptMode=GANG with SchedulerTimeSlice.

#include <cmath>

#include "core/fleet/order.hpp"

namespace rehearse::fleet {

namespace {

constexpr double kHour = 3600;

class Turns final : public Order {
 public:
  explicit Turns(double slice) : slice_(slice) {}

  OrderKey key(const JobState& j, double) const override { return {0, 0, j.place, j.number}; }

  double next_change(const JobState& j, double now) const override {
    return now + std::max(0.0, slice_ * (j.level + 1) - j.attained_at(now));
  }
  void changed(JobState& j, double now) override {
    const double slack = 1e-6;  // Of a slice: the change was scheduled for the moment when the slice is over.
    if (j.attained_at(now) < slice_ * (j.level + 1 - slack)) return;
    j.level = static_cast<int>(std::floor(j.attained_at(now) / slice_ + slack));
    j.place = ++last_;
  }
  void arrived(JobState& j) override { j.place = ++last_; }

 private:
  double slice_;
  std::int64_t last_ = 0;
};

const bool registered_turns = orders().add(
    {"turns",
     "in turns of one time slice each",
     {{"turns.slice", "seconds for which a job holds its GPUs until it goes behind the others", "3600"}},
     [](const Parameters& p) { return std::make_unique<Turns>(std::max(1e-3, p.get("turns.slice", kHour))); }});

}  // namespace

}  // namespace rehearse::fleet
