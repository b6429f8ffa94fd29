#pragma once
// What the instructions of a rank's step do on its device, worked out once: operators and their calls, collectives,
// channels.

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/base/index.hpp"
#include "gpu_backend/communicate/counted_exchange.hpp"
#include "gpu_backend/execute/collective_work.hpp"
#include "gpu_backend/execute/device.hpp"
#include "gpu_backend/execute/plan.hpp"
#include "gpu_backend/train/data.hpp"

namespace rehearse {

struct Prepared {
  std::string name;  ///< As in traces: body and task.
  const Operator* op = nullptr;
  const Operator* clear = nullptr;  ///< Runs first on what the task would add to, where it overwrites.
  OperatorCall call;                ///< Without addresses, step and random numbers.
  // What is in flight outlives an executor that fails.
  std::shared_ptr<CollectiveWork> collective;
  std::shared_ptr<CountedExchange> exchange;
  Channel* channel = nullptr;
};

/// Sets TensorView::value of what tasks of the step read after it was written in the step.
void number_values(const RankPlan& plan, std::span<Prepared> prepared);

/// Holds the communicators and channels of a plan, which instructions of one group and stream share. All ranks prepare
/// their steps in the same order.
class Preparation {
 public:
  /// What operators observe goes to `observed`; inputs come from `data`.
  Preparation(RankPlan& plan, const ComputeDevice& device, Transport& transport, const DataSource& data,
              Observations& observed)
      : plan_(plan),
        program_(plan.program()),
        device_(device),
        transport_(transport),
        data_(data),
        observed_(observed) {}

  /// Throws Error (unavailable) for tasks that cannot be executed.
  [[nodiscard]] Prepared prepare(const Instruction& in);

 private:
  [[nodiscard]] const Tensor& tensor(int id) const { return nth(program_.tensors, id); }
  void prepare_compute(const Instruction& in, const ComputeTask& c, Prepared& out) const;
  Communicator* communicator(int group, StreamId stream);
  Channel* channel(const P2pTask& m, const ExprContext& at);

  RankPlan& plan_;
  const Program& program_;
  const ComputeDevice& device_;
  Transport& transport_;
  const DataSource& data_;
  Observations& observed_;
  std::map<std::pair<int, int>, std::unique_ptr<Communicator>> communicators_;  ///< By group and stream.
  std::map<std::string, std::unique_ptr<Channel>> channels_;
};

}  // namespace rehearse
