#pragma once
// What only the mesh and the state kept on it decide: buckets, tails, messages between stages, persistent memory. Read
// off a lowered sibling with the same axes, layers and gradient settings, one microbatch of one sequence, one chunk per
// stage and nothing recomputed. Where passes have calls of their own (pass_calls.hpp) there are up to three
// microbatches, and chunks as they are where buckets end with them.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/estimate/quick/pass_calls.hpp"
#include "core/estimate/quick/quick_tail.hpp"
#include "core/price/memory_rule.hpp"

namespace rehearse {

/// Reductions that the last backward of a chunk sets off once so many of its blocks are done.
struct MeshCall {
  int chunk = 0;  ///< Of the stage, as the mesh was read.
  int blocks = 0;
  double seconds = 0;
  Interference load;
};

/// The block that comes after so many of a chunk's first forward waits for an operation of the step before's tail.
struct MeshNeed {
  int chunk = 0;
  int blocks = 0;
  int operation = 0;
};

/// One stage, or several that are alike.
struct MeshStage {
  int role = 0, rank = 0;
  std::vector<MeshCall> calls;
  std::vector<MeshNeed> needs;
  QuickTail tail;
  Amounts held{};        ///< Persistent storage of the fullest rank, workspace and framework.
  double tail_peak = 0;  ///< Most that the tail holds beside it.
  Amounts at_tail_peak{};
  Bytes cached{0};  ///< What the allocator keeps besides.
  Bytes capacity;
  StageCalls between;      ///< Where passes have calls of their own (QuickMesh::in_passes).
  PassMemory tail_memory;  ///< Of what follows the last pass.
  Elsewhere host_held{};   ///< Persistent storage outside the device.
};

/// Messages of one size: from each stage to the next, the last one's to the first, and the other way.
struct MeshMessages {
  std::vector<Transfer> forward, backward;
  bool even = true;  ///< All but those between last and first cost the same.
};

/// What a mesh is read for, each with what the one before does not show: reductions that the last backward sets off;
/// any calls of passes; those that depend on what blocks keep.
enum class MeshDetail : unsigned char { reductions, calls, calls_of_blocks };

/// Any number of threads may ask it.
class QuickMesh {
 public:
  /// Reads `program`, as described above, and keeps nothing of it; beyond MeshDetail::reductions of several
  /// microbatches, with calls of their own in each, and perhaps of several chunks. `alike`: stages between the first
  /// and the last hold the same.
  QuickMesh(const Program& program, const Schedule& schedule, const Cluster& cluster, const CostModel& cost,
            const MemoryRule& rule, MeshDetail detail, bool alike);
  QuickMesh(const QuickMesh&) = delete;
  QuickMesh& operator=(const QuickMesh&) = delete;

  /// Whether the reductions and the tail are such as the step's walk can put together.
  [[nodiscard]] bool complete() const { return complete_; }
  /// Whether all stages meet in the tail, so that how it ends does not depend on the passes before.
  [[nodiscard]] bool meets() const { return meets_; }
  /// Stages that differ: first, middle and last, where those between are alike; otherwise each one.
  [[nodiscard]] const std::vector<MeshStage>& stages() const { return stages_; }
  [[nodiscard]] bool alike() const { return alike_; }
  /// As EstimatePrices::unlike.
  [[nodiscard]] bool unlike() const { return unlike_; }
  [[nodiscard]] const std::vector<const QuickTail*>& tails() const { return tails_; }
  [[nodiscard]] const std::vector<int>& sharing() const { return sharing_; }
  [[nodiscard]] MeshMessages messages(Bytes bytes, bool blocking) const;
  /// Whether the nodes have the memory that their ranks take, given bytes of a rank of each of stages().
  [[nodiscard]] bool host_fits(const std::vector<double>& bytes) const;
  [[nodiscard]] bool in_passes() const { return in_passes_; }
  /// What it must be read for to be complete, as its entries show.
  [[nodiscard]] MeshDetail wants() const { return wants_; }
  /// By side: what waiting for it counts as.
  [[nodiscard]] const std::vector<TimeCategory>& categories_of_sides() const { return categories_; }
  /// The side of MeshStage::calls.
  [[nodiscard]] int reductions() const { return reductions_; }
  /// Whether passes between the first and the last have calls.
  [[nodiscard]] bool in_every_pass() const { return in_every_pass_; }
  /// Whether it was read with one chunk a stage, which stands for all that a stage has.
  [[nodiscard]] bool one_chunk() const { return one_chunk_; }
  /// Calls in a pass of a kind of stage: of a chunk of it, which are the `count` blocks from `base` on in the order of
  /// the pass where the mesh was read with one chunk a stage. A chunk's first pass differs from others, and so does its
  /// last.
  struct Part {
    int stage, chunk;
    Pass pass;
    bool first, last;
    int base, count;
  };
  [[nodiscard]] PassCalls calls(const Part& part) const;
  /// About what it takes of the host's memory.
  [[nodiscard]] std::size_t bytes() const;

 private:
  friend class MeshReader;
  const Schedule& schedule_;
  mutable std::mutex asking_;  ///< Messages are priced when they are asked for.
  mutable MessagePrices prices_;
  /// Of messages from each stage to the next, the last one's to the first, and the other way.
  std::vector<EstimatePrices::Ends> forward_, backward_;
  std::vector<MeshStage> stages_;
  std::vector<const QuickTail*> tails_;
  std::vector<int> sharing_;
  /// Nodes that differ: ranks of each of stages_, and the node's memory in bytes.
  std::vector<std::pair<std::vector<int>, double>> nodes_;
  std::vector<TimeCategory> categories_;
  int reductions_ = 0;
  MeshDetail wants_;
  bool alike_, complete_ = true, one_chunk_ = true, meets_ = false, in_passes_ = false, in_every_pass_ = false,
               unlike_ = false;
};

/// Where the tail of a step leaves the stages when nothing came before it; by kind of stage.
struct TailStart {
  std::vector<std::vector<double>> ends, streams;  ///< By operation; by stream.
  std::vector<double> free;                        ///< The compute stream.
  double end = 0;                                  ///< Of all of them.
};

/// What one estimator asks of a mesh again and again.
class MeshAnswers {
 public:
  explicit MeshAnswers(std::shared_ptr<const QuickMesh> mesh) : mesh_(std::move(mesh)) {}
  [[nodiscard]] const QuickMesh* mesh() const { return mesh_.get(); }
  std::optional<TailStart> start;  ///< Once it has been worked out.
  [[nodiscard]] const MeshMessages& messages(Bytes bytes, bool blocking);
  [[nodiscard]] const PassCalls& calls(const QuickMesh::Part& part);

 private:
  std::shared_ptr<const QuickMesh> mesh_;
  std::map<std::pair<double, bool>, MeshMessages> messages_;
  std::unordered_map<std::uint64_t, PassCalls> calls_;
};

}  // namespace rehearse
