#pragma once
// What the passes of one chunk of a model take, from the blocks it is made of. The blocks come from a lowered sibling:
// the same tensor-parallel rank with the same microbatch, in a network of one layer per stage.

#include <memory>
#include <vector>

#include "core/estimate/estimate_prices.hpp"
#include "core/estimate/quick/pass_part.hpp"
#include "core/estimate/quick/quick_estimate.hpp"
#include "core/model/network.hpp"
#include "core/program/liveness_curve.hpp"

namespace rehearse {

/// Where a chunk stands in the model: the first has what comes before the layers, the last what comes after.
enum class ChunkKind : unsigned char { first, middle, last, whole };
inline constexpr int kChunkKinds = 4;

/// Memory over one pass, relative to its start. A message that left before is held until the pass's first kernels are
/// done.
struct PassMemory {
  double until_kernels = 0, after = 0;  ///< Most held: up to the end of the first kernels, and from there on. Bytes.
  Amounts at_until{}, at_after{};       ///< By category at those moments.
  Amounts kept{};                       ///< At the end, its own message gone.
  Amounts leaving{};                    ///< That message.
  double kept_in_all = 0, leaving_in_all = 0;
};

/// One direction of one chunk.
struct ChunkPass {
  ComputeWork work;
  std::vector<InputCopy> inputs;
  PassMemory memory;
  bool unpacks_in_line = false;
  /// Seconds of compute before the `blocks`-th block of the pass.
  [[nodiscard]] double offset(int blocks) const;
  [[nodiscard]] int blocks() const {
    return static_cast<int>(head.size()) - 1 + layers + static_cast<int>(rest.size()) - 1;
  }

  int layers = 0;
  double layer_seconds = 0;
  std::vector<double> head{0.0}, rest{0.0};  ///< Running sums over the blocks before and after the layers.
};

/// Chunks of so many layers, by ChunkKind; forward and backward.
using ChunkPasses = std::array<std::array<ChunkPass, 2>, kChunkKinds>;

/// What is sent to the next stage, or back.
struct BlockMessage {
  Bytes bytes;
  ComputeWork prepare;
  Transfer unpack;
  BodyCurve send, receive;
};

/// Blocks of one key, priced.
class QuickBlocks {
 public:
  /// Reads the passes of `program`, a lowering of `network`, one microbatch, one layer per stage.
  QuickBlocks(const Program& program, const Network& network, const CostModel& cost);

  /// Whether the blocks say all about a pass: every one has a forward and a backward, and no storage waits for another
  /// stream.
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] const ChunkPasses& chunks(int layers);
  [[nodiscard]] LayerPasses layer() const;
  [[nodiscard]] const BlockMessage& message(bool forward) const { return messages_[forward ? 0 : 1]; }

 private:
  struct Block {
    std::array<ComputeWork, 2> work;
    std::array<BodyCurve, 2> curve;
    std::array<int, 2> calls{};
    std::array<bool, 2> open{};
    double input_seconds = -1;
    BodyCurve input_curve;
  };
  void read(const Program& program, const Entry& e, int role, EstimatePrices& prices);
  [[nodiscard]] ChunkPass make_pass(bool forward, ChunkKind kind, int layers) const;
  [[nodiscard]] std::vector<std::pair<const Block*, int>> blocks_of(bool forward, ChunkKind kind, int layers) const;
  [[nodiscard]] PassMemory memory_of(bool forward, ChunkKind kind, int layers) const;

  std::vector<int> block_at_;  ///< Of the network, by position.
  std::vector<Block> blocks_;
  int layer_ = 0;  ///< Index of the block that is the layer.
  std::array<BlockMessage, 2> messages_;
  std::vector<std::unique_ptr<ChunkPasses>> chunks_;  ///< By layers.
  bool complete_ = true, stages_ = false;
};

}  // namespace rehearse
