#pragma once
// Who comes first: the ordering seam. One file each in orders/.

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/registry.hpp"
#include "core/fleet/engine/job_state.hpp"

namespace rehearse::fleet {

/// Less comes first, member by member. `number` is the job's order of arrival, so that no two jobs are equal.
struct OrderKey {
  double first = 0, second = 0;
  std::int64_t third = 0;
  int number = 0;
  auto operator<=>(const OrderKey&) const = default;
};

/// Numbers that a part takes, by name; those not given have defaults.
class Parameters {
 public:
  explicit Parameters(const std::map<std::string, double>& values) : values_(&values) {}
  [[nodiscard]] double get(const std::string& name, double fallback) const {
    const auto at = values_->find(name);
    return at == values_->end() ? fallback : at->second;
  }

 private:
  const std::map<std::string, double>* values_;
};

/// An instance belongs to one run. The key of a job that waits stays as it is until the job starts, but for weigh().
class Order {
 public:
  virtual ~Order() = default;
  [[nodiscard]] virtual OrderKey key(const JobState& job, double now) const = 0;
  /// When the key of a running job changes otherwise than by time passing, so that the scheduler must look again.
  [[nodiscard]] virtual double next_change(const JobState&, double /*now*/) const { return kNever; }
  /// Told at that time.
  virtual void changed(JobState&, double /*now*/) {}
  /// Whether keys are to be worked out anew from all jobs together (weigh), before the scheduler looks at `now`.
  [[nodiscard]] virtual bool weighs(double /*now*/) const { return false; }
  /// Told all jobs that run or wait, in order of arrival, and the thousandths of GPUs that are there. Keys of jobs that
  /// wait may change by it.
  virtual void weigh(const std::vector<JobState*>& /*jobs*/, double /*now*/, std::int64_t /*capacity*/) {}
  /// Whether a waiting job may start at all by now.
  [[nodiscard]] virtual bool ready(const JobState&) const { return true; }
  /// When the scheduler should look again although nothing happened, while jobs wait.
  [[nodiscard]] virtual double again() const { return kNever; }
  /// Told when a job arrives.
  virtual void arrived(JobState&) {}
  /// Told when a job ends.
  virtual void ended(const JobState&) {}
  /// Told when a node takes a running job with it, which then waits.
  virtual void failed(JobState&) {}
  /// Told after the scheduler has looked: which jobs it started and which it stopped, each in the order they had.
  virtual void settled(const std::vector<JobState*>& /*started*/, const std::vector<JobState*>& /*stopped*/) {}
};

using OrderFactory = std::function<std::unique_ptr<Order>(const Parameters&)>;
/// Orders of jobs: "arrival", "shortest", ...
[[nodiscard]] Registry<OrderFactory>& orders();

}  // namespace rehearse::fleet
