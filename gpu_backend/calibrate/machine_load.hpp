#pragma once
// Whether a machine was left to the ranks that were measured on it: what other programs took of its processors, and at
// what pace it does a fixed piece of work.

#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "gpu_backend/calibrate/team.hpp"

namespace rehearse {

/// What some processors did since the machine was started.
struct ProcessorTime {
  double worked = 0;  ///< Seconds, for any program, or taken by the machine that a virtual machine runs on.
  double all = 0;     ///< Seconds, idle ones too.
};
/// By number of the processor, as /proc/stat tells it (proc(5)), whose seconds have `ticks` ticks; empty where the text
/// does not tell.
[[nodiscard]] std::vector<ProcessorTime> processor_times(const std::string& stat, double ticks);

/// Watches from its beginning the processors that this process may use then.
class ProcessorWatch {
 public:
  ProcessorWatch();
  /// Share of the time of all ranks' processors in which these worked for others than the ranks, from 0 to 1; nothing
  /// where the system does not tell. All ranks call it, and all get the same.
  [[nodiscard]] std::optional<double> taken_by_others(Transport& transport) const;

 private:
  std::vector<int> processors_;
  std::vector<ProcessorTime> begun_;
  double own_ = 0;  ///< Seconds that processors had worked for this process.
};

/// What ranks at work at once take for the same work, wherever and whenever they do it.
struct MachinePace {
  Seconds work;  ///< 64 products of 256 x 256 matrices and a walk over 128 MiB, mean over ranks; 0 where not measured.
  /// How much longer than their mean the slowest of the ranks takes. Ranks that share a machine meet when that one has
  /// come; which one it is changes, so no mean of a rank's times shows it.
  double slowest_to_mean = 1;
};
/// Takes about a second and a half. Devices that queue are not measured. All ranks of the team call it.
[[nodiscard]] MachinePace measure_pace(Team& team);

}  // namespace rehearse
