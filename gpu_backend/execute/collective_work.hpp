#pragma once
// One collective task of a plan, ready to be started: which elements go to whom, from the layouts of its operands.

#include <memory>
#include <vector>

#include "gpu_backend/communicate/communicator.hpp"
#include "gpu_backend/communicate/transfer.hpp"
#include "gpu_backend/execute/plan.hpp"

namespace rehearse {

class CollectiveWork {
 public:
  /// `communicator` is null for a group of one. For counts that only the data decides see CountedExchange.
  CollectiveWork(RankPlan& plan, const Instruction& task, Communicator* communicator, Numerics numerics);

  /// Starts it on operands at `data`, which stay valid until it is done.
  void start(ComputeDevice& device, const std::vector<std::byte*>& data, Done done) const;
  /// Payload of this rank, the larger of what it puts in and gets out, in the Program's types.
  [[nodiscard]] double bytes() const { return bytes_; }

 private:
  /// Operand numbers; equal for in place.
  struct Pair {
    std::size_t in, out;
  };
  /// Per member, per pair: the blocks that go there or come from there.
  using Parts = std::vector<std::vector<Blocks>>;

  void list_pairs(const Instruction& task);
  void list_parts(RankPlan& plan, const Instruction& task, const std::vector<int>& members);
  void list_local(const PlannedOperand& in, const PlannedOperand& out, std::size_t member, std::size_t members);
  void list_halo(RankPlan& plan, const Instruction& task, const std::vector<int>& members);
  void count_bytes(const RankPlan& plan, const Instruction& task);
  /// Elements of all parts, one after the other: memory of the device, or the operand itself where they lie there like
  /// that.
  struct Buffer {
    std::shared_ptr<Storage> storage;
    std::byte* data = nullptr;
  };
  [[nodiscard]] Buffer room(ComputeDevice& device, const Parts& parts, const std::vector<std::byte*>& data,
                            bool inputs) const;
  void pack_inputs(ComputeDevice& device, const std::vector<std::byte*>& data, std::byte* to) const;
  [[nodiscard]] Buffer packed_inputs(ComputeDevice& device, const std::vector<std::byte*>& data) const;
  void unpack_into(ComputeDevice& device, const std::vector<std::byte*>& data, const Buffer& from) const;
  void finish(ComputeDevice& device, const std::vector<std::byte*>& data, const Buffer& received) const;
  void copy_through(ComputeDevice& device, const std::vector<std::byte*>& data) const;
  void copy_own(ComputeDevice& device, const std::vector<std::byte*>& data) const;
  void divide(ComputeDevice& device, std::byte* data, std::int64_t n) const;

  CollectiveCall call_;
  Communicator* communicator_;
  std::vector<Pair> pairs_;
  std::vector<std::int64_t> out_elements_;
  Parts send_, receive_;
  Pair own_{};
  Blocks own_from_, own_to_;  ///< Own elements that a halo exchange into another buffer copies; empty in place.
  bool in_place_ = false;     ///< One operand, reduced where it lies.
  double divisor_ = 1, bytes_ = 0;
};

}  // namespace rehearse
