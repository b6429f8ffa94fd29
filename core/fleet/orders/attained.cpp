// Least attained service in levels: a job begins in the first level and falls into the next when what it attained
// reaches the level's limit. Of a level, those that run keep their order and come before those that wait, or all come
// in the order in which they came into it. Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning"
// (NSDI 2019), discretised two-dimensional LAS; order within a level as in SymbioticLab/Tiresias @959f9b0,
// simulator/run_sim.py.

#include <algorithm>
#include <vector>

#include "core/fleet/order.hpp"

namespace rehearse::fleet {

namespace {

class Attained final : public Order {
 public:
  Attained(bool of_gpus, bool in_turn, std::vector<double> limits)
      : of_gpus_(of_gpus), in_turn_(in_turn), limits_(std::move(limits)) {}

  OrderKey key(const JobState& j, double) const override {
    return {static_cast<double>(j.level), j.behind && !in_turn_ ? 1.0 : 0.0, j.place, j.number};
  }

  double next_change(const JobState& j, double now) const override {
    if (static_cast<std::size_t>(j.level) >= limits_.size()) return kNever;
    const double left = nth(limits_, j.level) - attained(j, now);
    return now + std::max(0.0, left) / (of_gpus_ ? static_cast<double>(j.milli) / kWholeGpu : 1);
  }

  void changed(JobState& j, double now) override {
    const double slack = 1e-6;  // Of a second: the change was scheduled for the moment when the limit is reached.
    while (static_cast<std::size_t>(j.level) < limits_.size() &&
           attained(j, now) >= nth(limits_, j.level) - slack * (1 + static_cast<double>(j.milli))) {
      ++j.level;
      j.behind = true;
      j.place = ++last_;
      fallen_.push_back(&j);
    }
  }

  void arrived(JobState& j) override { j.place = ++last_; }

  void failed(JobState& j) override {
    if (!in_turn_ && !j.behind) j.behind = true, j.place = --first_;
  }

  void settled(const std::vector<JobState*>& started, const std::vector<JobState*>& stopped) override {
    if (in_turn_) return fallen_.clear();
    fallen_.insert(fallen_.end(), started.begin(), started.end());
    std::sort(fallen_.begin(), fallen_.end(), [](const JobState* a, const JobState* b) { return a->place < b->place; });
    for (JobState* j : fallen_)
      if (j->behind && j->phase == Phase::running) j->behind = false, j->place = ++last_;
    fallen_.clear();
    for (auto j = stopped.rbegin(); j != stopped.rend(); ++j)
      if (!(*j)->behind) (*j)->behind = true, (*j)->place = --first_;
  }

 private:
  [[nodiscard]] double attained(const JobState& j, double now) const {
    return of_gpus_ ? j.attained_gpu_at(now) : j.attained_at(now);
  }

  bool of_gpus_;
  bool in_turn_;  ///< Of a level, those that came into it first come first, whether they run or wait.
  std::vector<double> limits_;
  std::int64_t first_ = 0, last_ = 0;
  std::vector<JobState*> fallen_;  ///< Running jobs that fell into the next level since the last look.
};

// Queue limits of that program, which has three levels.
constexpr double kLimit = 3250, kLimit2 = 7200;

OrderFactory factory_of_attained(bool of_gpus) {
  return [=](const Parameters& p) {
    std::vector<double> limits{p.get("attained.limit", kLimit)};
    for (const double more : {p.get("attained.limit2", kLimit2), p.get("attained.limit3", 0)})
      if (more > limits.back()) limits.push_back(more);
    return std::make_unique<Attained>(of_gpus, p.get("attained.in_turn", 0) != 0, std::move(limits));
  };
}

std::vector<ParameterHelp> levels(const std::string& unit) {
  return {
      {"attained.limit", unit + " with which a job leaves the first level", "3250"},
      {"attained.limit2", unit + " with which it leaves the second; 0: it does not", "7200"},
      {"attained.limit3", unit + " with which it leaves the third; 0: it does not", "0"},
      {"attained.in_turn", "1: of a level, jobs come in the order in which they came into it, running or not", "0"}};
}

const bool registered_attained =
    orders().add({"attained", "least GPU time attained, in levels", levels("GPU-seconds"), factory_of_attained(true)});
const bool registered_attained_time =
    orders().add({"attained_time", "least time attained, in levels", levels("seconds"), factory_of_attained(false)});

}  // namespace

}  // namespace rehearse::fleet
