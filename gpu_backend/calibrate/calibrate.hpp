#pragma once
// Measures what a device profile holds: kernels, collectives and messages, never a network's step. All ranks call it;
// they work on the same case at the same time, as ranks of a run do, so that what they share (cores, caches, memory) is
// in the times.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/price/calibration/device_profile.hpp"
#include "gpu_backend/calibrate/probes.hpp"
#include "gpu_backend/communicate/communicator.hpp"
#include "gpu_backend/execute/device.hpp"

namespace rehearse {

struct CalibrationRequest {
  /// About how long it may take, more than 0. It sets how often each kernel is repeated. A device that queues also
  /// stops when the time is over: kernels that it had not reached have no row. Memory's rate is always measured.
  double budget_s = 60;
  std::vector<Numerics> numerics{Numerics::fp32};
  /// On a device that queues, the one that the transport joins: communication goes over its streams.
  std::function<std::shared_ptr<ComputeDevice>(Numerics)> make_device;
  ProbeGrid grid = small_grid();  ///< At what sizes.
  /// Ranks have memory and processors to themselves, as GPUs do: 1 rank and all are measured, not what lies between.
  bool apart = false;
  /// Divides the machine: called before `ranks` ranks work at once. Returns the threads of one of them.
  std::function<int(int ranks)> share_machine;
  /// Share done, 0 to 1, and what is measured now; on every rank. What it throws ends the calibration.
  std::function<void(double share, const std::string& what)> progress;
};

/// Settings, collectives and messages; on rank 0 only, empty elsewhere. The caller adds what the machine is.
[[nodiscard]] DeviceProfile calibrate(Transport& transport, const CalibrationRequest& request);

/// Numbers of ranks at work at once that are measured among `ranks`: 1, 2, 4, ... and `ranks` itself.
[[nodiscard]] std::vector<int> calibrated_ranks(int ranks);

/// Median, and half the distance between the quartiles over it. `samples` is not empty.
struct Spread {
  double median = 0, relative = 0;
};
[[nodiscard]] Spread spread_of(std::vector<double> samples);

}  // namespace rehearse
