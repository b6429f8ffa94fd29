#pragma once
// An all-to-all whose counts only the data decides: rows to and from each peer are read from tensors that earlier tasks
// have written.

#include <atomic>
#include <memory>
#include <vector>

#include "gpu_backend/communicate/communicator.hpp"
#include "gpu_backend/execute/plan.hpp"

namespace rehearse {

class CountedExchange {
 public:
  /// Values of the dynamic dimensions, by number; empty where the task's counts don't ask for them.
  using Values = std::vector<std::vector<std::int64_t>>;

  CountedExchange(const RankPlan& plan, const Instruction& task, Communicator* communicator, Numerics numerics);

  /// Within the work of a task of `device`: starts it on operands at `data`, which stay valid until it is done. Throws
  /// Error (check_failed) where the values say more than there is room for.
  void start(ComputeDevice& device, const std::vector<std::byte*>& data, const Values& values, Done done) const;
  /// Payload of all that was started so far, the larger side of each, in the Program's types.
  [[nodiscard]] double moved() const { return moved_->load(); }

 private:
  /// One tensor that moves: operands, elements of a row, rows there is room for.
  struct Part {
    std::size_t in, out;
    std::int64_t width, sent_room, received_room;
    double bytes;
  };

  [[nodiscard]] std::vector<std::int64_t> rows(ExprId count, const Values& values) const;
  void check(const std::vector<std::int64_t>& rows, bool sends) const;

  const Program& program_;
  int rank_;
  const CollectiveTask& task_;
  ExprContext at_;
  int members_;
  Communicator* communicator_;
  std::string name_;
  ElementType type_;
  std::vector<Part> parts_;
  std::unique_ptr<std::atomic<double>> moved_ = std::make_unique<std::atomic<double>>(0.0);
};

}  // namespace rehearse
