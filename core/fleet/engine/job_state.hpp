#pragma once
// One job while a fleet is played. Times in seconds from the fleet's zero.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/fleet/engine/machines.hpp"
#include "core/fleet/result.hpp"

namespace rehearse::fleet {

using JobId = int;

enum class Phase { coming, waiting, running, gone };

struct JobState {
  const Job* job = nullptr;
  JobId id = 0;
  int queue = 0;  ///< Index of the quota tree's leaf; 0 where there are no queues.
  int shape = 0;
  int number = 0;  ///< Order of arrival: distinct, and the last word where keys are equal.
  double arrival = 0;
  Phase phase = Phase::coming;

  double left = 0;      ///< Seconds of work at full size that are still to be done, as of `since`.
  double saved = 0;     ///< `left` as of the last checkpoint.
  double speed = 1;     ///< Seconds of work done in a second with what it holds.
  double since = 0;     ///< When the figures here were brought up to date.
  double ready = 0;     ///< Running: work goes on from here; before it the job starts again.
  double every = 0;     ///< Seconds of work from `ready` on until a checkpoint, and between two; 0: none is written.
  double write = 0;     ///< Seconds that one takes, in which no work is done.
  double attained = 0;  ///< Seconds during which it held GPUs.
  double attained_gpu = 0;  ///< GPU-seconds that it held.
  double began = 0;         ///< Of the present stay.
  int gpus = 0;             ///< Held.
  std::int64_t milli = 0;
  Holding held{};
  std::uint32_t epoch = 0;  ///< Events of an earlier one are void.

  // Kept for orders that need a memory (attained service).
  int level = 0;
  bool behind = true;      ///< Among those of its level that did not run when the scheduler looked last.
  std::int64_t place = 0;  ///< Within them.

  bool interrupted = false;                    ///< Its next start costs a restart.
  std::array<double, kWhys> waits_at_entry{};  ///< Of its group, when it began to wait.

  /// Seconds of [since, now) in which it works: neither starts nor writes a checkpoint. Running only.
  [[nodiscard]] double worked_until(double now) const {
    const double from = since > ready ? since : ready;
    if (now <= from) return 0;
    return write > 0 ? worked(now - ready) - worked(from - ready) : now - from;
  }
  /// Work left at `now`.
  [[nodiscard]] double left_at(double now) const {
    return phase == Phase::running ? left - worked_until(now) * speed : left;
  }
  [[nodiscard]] double attained_at(double now) const {
    return phase == Phase::running ? attained + now - since : attained;
  }
  [[nodiscard]] double attained_gpu_at(double now) const {
    return phase == Phase::running ? attained_gpu + (now - since) * static_cast<double>(milli) / kWholeGpu
                                   : attained_gpu;
  }
  /// When it ends, as it is; running only.
  [[nodiscard]] double end() const { return end_of(left); }
  /// When it has done `work` more than by `since`.
  [[nodiscard]] double end_of(double work) const {
    const double from = since > ready ? since : ready, takes = work / speed;
    if (write <= 0) return from + takes;
    return ready + with_writes(worked(from - ready) + takes);
  }
  /// Seconds from `ready` on in which it works for so many of them. What is done at last needs no checkpoint.
  [[nodiscard]] double with_writes(double works) const {
    return write > 0 ? works + std::max(0.0, std::ceil(works / every - kSlack) - 1) * write : works;
  }
  /// Checkpoints that are written by `now` since `ready`, of a job that writes any.
  [[nodiscard]] double written(double now) const {
    return std::floor(std::max(0.0, now - ready) / (every + write) + kSlack);
  }

 private:
  static constexpr double kSlack = 1e-9;  ///< Of a checkpoint's interval.
  /// Seconds of work in the first `passed` after `ready`.
  [[nodiscard]] double worked(double passed) const {
    const double whole = std::floor(passed / (every + write));
    return whole * every + std::min(passed - whole * (every + write), every);
  }
};

inline constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace rehearse::fleet
