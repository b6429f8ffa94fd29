#pragma once
// What the passes of one chunk of a model take, from the blocks it is made of. The blocks come from a lowered sibling:
// the same tensor-parallel rank with the same microbatch, in a network of one or two layers of each kind.

#include <array>
#include <map>
#include <vector>

#include "core/estimate/estimate_prices.hpp"
#include "core/estimate/quick/chunk_layout.hpp"
#include "core/estimate/quick/pass_calls.hpp"
#include "core/estimate/quick/pass_memory.hpp"
#include "core/estimate/quick/quick_estimate.hpp"
#include "core/model/network.hpp"

namespace rehearse {

/// One direction of one chunk.
struct ChunkPass {
  ComputeWork work;
  std::vector<InputCopy> inputs;
  PassMemory memory;
  bool unpacks_in_line = false;
  std::vector<double> seconds;       ///< Of each block, in the order of the pass.
  std::vector<double> offsets{0.0};  ///< Seconds of the blocks before each, and of all.

  [[nodiscard]] int blocks() const { return static_cast<int>(seconds.size()); }
};

/// Which of a chunk's passes: the first backward of a step may write gradients that later ones add to.
enum class PassKind : unsigned char { forward, backward, first_backward };
inline constexpr int kPassKinds = 3;

/// By PassKind; empty where nothing is held.
using ChunkPasses = std::array<ChunkPass, kPassKinds>;

/// A forward and a backward interleaved block by block, in the place of the backward.
struct ChunkPair {
  ChunkPass pass;                 ///< Its blocks are pairs, and what the longer of the two has besides.
  std::array<double, 2> begin{};  ///< Of forward and backward, in seconds from the pair's begin.
  double early = 0;               ///< So much before the end both messages may leave.
};

/// What is sent to the next stage, or back.
struct BlockMessage {
  Bytes bytes;
  ComputeWork prepare;
  Transfer unpack;
  MemoryCall send, receive;
};

/// A block of the network, by PassKind.
struct BlockPasses {
  std::array<int, kPassKinds> body{-1, -1, -1}, role{};  ///< Of its first call.
  std::array<ExprContext, kPassKinds> at;
  std::array<ComputeWork, kPassKinds> work;
  std::array<MemoryCall, kPassKinds> memory;
  std::array<int, kPassKinds> calls{};
  std::array<bool, kPassKinds> open{};
  double input_seconds = -1;
  MemoryCall input;
};

/// Blocks of one key, priced. Any number of threads may ask it.
class QuickBlocks {
 public:
  /// Reads the passes of `program`, a lowering of `network`, and one microbatch, or two where the first differs.
  /// `everywhere`: it has all ranks, and whether blocks take as long on all of them is to be found out.
  /// `pairs`: it is interleaved as schedules that pair passes need it, and so are the passes.
  QuickBlocks(const Program& program, const Network& network, const CostModel& cost, bool everywhere, bool pairs);

  /// Whether the blocks say all about a pass: every one has a forward and a backward that take as long on any stage,
  /// and no storage waits for another stream.
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] ChunkPasses passes(const ChunkContent& of) const;
  /// Where `program` was made for a schedule that pairs passes.
  [[nodiscard]] ChunkPair pair(const ChunkContent& forward, const ChunkContent& backward, bool first) const;
  [[nodiscard]] PassKind first_backward() const { return several_ ? PassKind::first_backward : PassKind::backward; }
  /// Of the first kind of layer.
  [[nodiscard]] LayerPasses layer() const;
  [[nodiscard]] const BlockMessage& message(bool forward) const { return messages_[forward ? 0 : 1]; }
  /// Blocks of a pass in its order, each with how often it comes in a row.
  [[nodiscard]] std::vector<std::pair<const BlockPasses*, int>> blocks_of(bool forward, const ChunkContent& of) const;
  /// What the allocator keeps besides on the stage with the last block (cached_blocks).
  [[nodiscard]] Bytes cached_at_end() const { return cached_at_end_; }

 private:
  void read(const Program& program, const Entry& e, int role, EstimatePrices& prices);
  [[nodiscard]] PassKind pass_of(const Entry& e, bool forward) const;
  [[nodiscard]] bool compare(const Entry& e, bool forward, int role, EstimatePrices& prices);
  [[nodiscard]] ChunkPass make_pass(PassKind pass, const ChunkContent& of) const;
  [[nodiscard]] PassMemory memory_of(PassKind pass, const ChunkContent& of) const;
  void price_pairs(EstimatePrices& prices);

  std::vector<int> block_at_;  ///< Of the network, by position.
  std::vector<BlockPasses> blocks_;
  struct BlockPair {
    ComputeWork work;
    std::array<double, 2> begin{};  ///< Of forward and backward.
    double end = 0;                 ///< Of the backward.
  };
  std::map<std::array<int, 3>, BlockPair> pairs_;  ///< By block of the forward, of the backward, and its PassKind.
  int layer_ = 0;                                  ///< Index of the first kind of layer.
  std::array<BlockMessage, 2> messages_;
  bool everywhere_, complete_ = true, stages_ = false, several_ = false;
  Bytes cached_at_end_;
};

}  // namespace rehearse
