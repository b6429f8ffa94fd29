#pragma once
// Executes a Program on one rank: walks the rank's plan, gives every task its storage, puts it on its stream of the
// device, and moves data between ranks. Knows no device, no library and no strategy.

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/program/liveness.hpp"
#include "gpu_backend/communicate/communicator.hpp"
#include "gpu_backend/execute/device.hpp"
#include "gpu_backend/execute/fuse/side_by_side.hpp"
#include "gpu_backend/train/data.hpp"

namespace rehearse {

/// What one step did.
struct StepResult {
  std::int64_t step = 0;
  double loss = 0;           ///< Mean over the tokens of all ranks.
  double gradient_norm = 0;  ///< Before clipping; 0 where gradients are not clipped.
  double seconds = 0;        ///< From the end of the step before, on this rank.
  /// Device memory at its peak, in the Program's types, as allocated and freed in order of issue.
  CategoryBytes peak;
  Bytes peak_bytes;       ///< Sum of `peak`.
  bool replayed = false;  ///< As one launch of what was recorded.
  /// Payload of this rank's collectives (the larger side) and of what it sends, in the Program's types.
  Bytes communicated;
};

struct ExecutorOptions {
  /// Record the step on the device once two have run, and replay it from then on (CUDA graphs), where
  /// Executor::not_replayed_because() says nothing.
  bool replay = false;
  /// Let the device do several tasks as one where it can (fusion.hpp). Results are the same to rounding.
  bool fuse = true;
  /// Called before every optimizer task, once all work before it is done, with its operands: tests and tools read
  /// gradients here.
  std::function<void(const OperatorCall&)> on_update{};
  /// Called after every choice of experts, with its operands (gpu_backend/README.md). On a GPU the choice may still be
  /// under way.
  std::function<void(const OperatorCall&)> on_route{};
};

class Executor {
 public:
  /// Allocates persistent tensors and sets their initial values. Throws Error (unavailable) naming every operator that
  /// the device lacks.
  Executor(const Program& program, ComputeDevice& device, Transport& transport, const DataSource& data,
           ExecutorOptions options);
  ~Executor();

  /// Runs one step on all ranks together; returns when its loss is known and its parameters are updated. `one_by_one`:
  /// tasks are issued, and so may be measured, even where steps are replayed.
  StepResult step(bool one_by_one = false);
  /// Why steps are issued task by task although ExecutorOptions::replay is set, in one line; empty where they are
  /// replayed, or where it is not set.
  [[nodiscard]] const std::string& not_replayed_because() const;
  /// Waits for everything in flight.
  void drain();

  /// Persistent tensors of this rank, in the Program's order; after drain().
  struct Persistent {
    std::string name;
    const Tensor* tensor;
    int layer;  ///< Of the instance; -1: not per layer.
    const Held* held;
    Run own;  ///< Of its elements, those that this rank updates: others may be stale until they are gathered.
    ElementType type;
    Storage* storage;
  };
  [[nodiscard]] std::vector<Persistent> persistent();
  /// Number of the next step.
  [[nodiscard]] std::int64_t next_step() const;
  void set_next_step(std::int64_t step);

  /// Begin and end of every instruction of the last step's plan, on the device's clock; after drain(). An interval of
  /// length zero at 0: not measured. Of tasks that were done as one the first has the whole time, the others end with
  /// it.
  [[nodiscard]] std::vector<Interval> intervals() const;
  /// Tasks of the plan that are done as one.
  [[nodiscard]] const std::vector<FusedGroup>& groups() const;
  /// Tensors of the plan whose rows lie side by side.
  [[nodiscard]] const std::vector<SlotsSideBySide>& beside() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearse
