#pragma once
// Prices Programs: kernels by core/price/kernels/kernel.hpp, collectives by core/collective, and bodies by playing
// their task graph on the streams of one rank.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/collective/collective.hpp"
#include "core/config/settings/forward.hpp"
#include "core/config/settings/input.hpp"
#include "core/price/kernels/kernel.hpp"
#include "core/program/program.hpp"
#include "core/trace/trace.hpp"

namespace rehearse {

struct DeviceProfile;  // device_profile.hpp

/// One task alone, with the machine to itself.
struct PricedTask {
  Seconds time;
  Seconds floor;  ///< No machine of this datasheet is faster; the physics check compares.
  TimeCategory category = TimeCategory::matmul;
  double sm_sensitivity = 0;   ///< Share of the time limited by SMs, 0..1.
  double hbm_sensitivity = 0;  ///< Share limited by device memory, 0..1.
  int kernels = 0;             ///< Launches.
};

/// A measured kernel, or a run of them.
struct TaskTime {
  Seconds time;
  TimeCategory category = TimeCategory::matmul;
};
/// By the name of the task.
using TaskTimes = std::map<std::string, TaskTime>;

/// What a running collective takes from the kernels beside it.
struct Interference {
  double sm_share = 0;   ///< SMs held / SMs of the device.
  double hbm_share = 0;  ///< Memory bandwidth used / peak.
};

/// Work proceeds at this rate beside `load`, 1 with none: 1 / (1 + a s/(1-s) + b h/(1-h)), a and b the kernel's
/// sensitivities, s and h the shares taken. A kernel bound by SMs alone keeps the share of SMs that is left.
[[nodiscard]] double overlap_rate(double sm_sensitivity, double hbm_sensitivity, const Interference& load);

/// A body played on one rank with nothing else running: tasks on their streams, collectives beside compute slowing it
/// down.
struct PricedBody {
  struct TaskSpan {
    int task;
    Seconds begin, end;
  };
  Seconds duration;                                ///< From the first task to the last on any stream.
  Breakdown breakdown;                             ///< Adds up to `duration`.
  double sm_sensitivity = 0, hbm_sensitivity = 0;  ///< Time-weighted over its compute.
  Seconds host;                                    ///< CPU time to launch its kernels.
  std::vector<TaskSpan> spans;
};

/// Where waiting for a stream counts: exposed communication of its axis.
[[nodiscard]] TimeCategory category_of_stream(const Program& program, StreamId stream);

class CostModel {
 public:
  struct Options {
    CollectiveModel::Options collectives;
    bool cuda_graphs = false;      ///< Launches cost a tenth.
    bool launch_blocking = false;  ///< The host's time adds to the device's.
    /// One kernel takes all experts, and reads their rows' numbers where they are: the host waits for none.
    bool fused_experts = false;
    InputSettings input;  ///< Rates of storage and decoding.
    /// Measured on the cluster's one machine: goes before the kernel model, operator by operator. May be null.
    std::shared_ptr<const DeviceProfile> profile{};
    /// Times of compute tasks of a traced job (core/import), launches and what ran beside them included. Go before
    /// everything else. May be null.
    std::shared_ptr<const TaskTimes> task_times{};
    /// Kernels of a rank take this times as long: stragglers. Ranks not named are as fast as they should be.
    std::map<int, double> slowdown{};

    /// Profiles and times are the same where they are one object.
    bool operator==(const Options&) const = default;
    /// What a job's kernel settings say of it, all else as above.
    [[nodiscard]] static Options of(const KernelSettings& kernels);
  };
  /// Calibration by GPU id, one for each GPU of the cluster (load_calibration gives them). Throws Error (usage) when
  /// one is missing.
  using Profiles = std::map<std::string, CalibrationProfile>;
  CostModel(const Cluster& cluster, const Profiles& profiles, const Options& options);
  ~CostModel();
  CostModel(CostModel&&) noexcept;

  [[nodiscard]] const Cluster& cluster() const;
  [[nodiscard]] const Options& options() const;
  [[nodiscard]] const CollectiveModel& collectives() const;
  /// Added to a message whose ends block (MessageEdge::blocking): their hosts queue it, wait for the device and launch
  /// anew.
  [[nodiscard]] Seconds message_wait() const;
  /// Prices task `task` of `body` on `rank` for the entry's layer, chunk and microbatch in `at`.
  [[nodiscard]] PricedTask price(const Program& program, const Task& task, const Body& body, int rank,
                                 const ExprContext& at) const;
  static constexpr int kOncePerKernel = -1;
  /// `launches`: how often the host launches, where that is not once per kernel: inside a captured graph.
  [[nodiscard]] PricedBody price_body(const Program& program, const Body& body, int rank, const ExprContext& at,
                                      int launches = kOncePerKernel) const;
  /// What the host takes to launch one kernel on the device of `rank`.
  [[nodiscard]] Seconds launch_overhead(const Program& program, int rank) const;
  /// SMs: one per channel. Memory: a byte on the wire is read and written at either end, once more where it is reduced.
  [[nodiscard]] Interference interference(CollectiveOp op, const CollectiveChoice& choice, Bytes bytes, int ranks,
                                          DeviceId device) const;
  /// Size of a collective as CollectiveModel takes it.
  [[nodiscard]] static Bytes collective_bytes(const Program& program, const Task& task, const Body& body,
                                              const ExprContext& at);
  /// What a pass's parameters and gradients that are whole for a moment only take on their way out of gathers' buffers
  /// and into scatters', in a body of its own. 0 where measured kernels have it.
  [[nodiscard]] Seconds copy_of_whole(Bytes read, Bytes written, DeviceId device) const;
  /// What updates on CPU cores that move so many bytes take, of the device's share of its node. Throws Error (usage)
  /// where the rate is not known.
  [[nodiscard]] Seconds update_on_host(Bytes moved, DeviceId device) const;
  /// What the prices of this Program rest on: the constants of the kernel classes it runs and of its collectives, with
  /// their held-out errors, and the rates of the wires.
  [[nodiscard]] std::vector<EvidenceItem> evidence(const Program& program) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearse
