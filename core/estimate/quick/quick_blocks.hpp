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

/// Which of a chunk's passes: by Pass, and behind them those that are the first of a step, which may write gradients
/// that later ones add to.
inline constexpr int kPassKinds = 2 * kPasses;
[[nodiscard]] constexpr int pass_kind(Pass pass, bool first) { return static_cast<int>(pass) + (first ? kPasses : 0); }

/// By pass_kind(); empty where nothing is held or there is no such pass.
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

/// A block of the network, by pass_kind().
struct BlockPasses {
  std::array<int, kPassKinds> body{}, role{};  ///< Of its first call; body -1 for none.
  std::array<ExprContext, kPassKinds> at;
  std::array<ComputeWork, kPassKinds> work;
  std::array<std::vector<MemoryCall>, kPassKinds> memory;
  std::array<int, kPassKinds> calls{};
  std::array<bool, kPassKinds> open{};
  double input_seconds = -1;
  MemoryCall input;
};

/// Blocks of one key, priced. Any number of threads may ask it.
class QuickBlocks {
 public:
  /// Reads the passes of `program`, a lowering of `network` for `schedule`: of its first microbatch, or with `several`
  /// of two, as the first differs. `everywhere`: it has all ranks, and whether blocks take as long on all of them is to
  /// be found out.
  QuickBlocks(const Program& program, const Network& network, const CostModel& cost, const Schedule& schedule,
              bool everywhere, bool several);

  /// Whether the blocks say all about a pass: every one has a forward and a backward that take as long on any stage,
  /// and no storage waits for another stream.
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] ChunkPasses passes(const ChunkContent& of) const;
  /// Where `program` was made for a schedule that pairs passes.
  [[nodiscard]] ChunkPair pair(const ChunkContent& forward, const ChunkContent& backward, bool first) const;
  /// The kind of a pass, where it differs by whether it is the first.
  [[nodiscard]] int kind_of(Pass pass, bool first) const {
    return pass_kind(pass, several_ && first && pass != Pass::forward);
  }
  [[nodiscard]] bool splits() const { return splits_; }
  /// Of the first kind of layer.
  [[nodiscard]] LayerPasses layer() const;
  [[nodiscard]] const BlockMessage& message(bool forward) const { return messages_[forward ? 0 : 1]; }
  /// Blocks of a pass in its order, each with how often it comes in a row.
  [[nodiscard]] std::vector<std::pair<const BlockPasses*, int>> blocks_of(bool forward, const ChunkContent& of) const;
  /// What the allocator keeps besides on the stage with the last block (cached_blocks).
  [[nodiscard]] Bytes cached_at_end() const { return cached_at_end_; }
  /// About what it takes of the host's memory.
  [[nodiscard]] std::size_t bytes() const;

 private:
  void read(const Program& program, const Entry& e, int role, EstimatePrices& prices);
  [[nodiscard]] int kind_of_body(const Body& body, int microbatch);
  [[nodiscard]] bool compare(const Entry& e, int kind, int role, EstimatePrices& prices);
  void join_halves();
  [[nodiscard]] ChunkPass make_pass(int kind, const ChunkContent& of) const;
  [[nodiscard]] PassMemory memory_of(int kind, const ChunkContent& of) const;
  void price_pairs(EstimatePrices& prices);

  std::vector<int> block_at_;  ///< Of the network, by position.
  std::vector<BlockPasses> blocks_;
  struct BlockPair {
    ComputeWork work;
    std::array<double, 2> begin{};  ///< Of forward and backward.
    double end = 0;                 ///< Of the backward.
  };
  std::map<std::array<int, 3>, BlockPair> pairs_;  ///< By block of the forward, of the backward, and its pass_kind().
  int layer_ = 0;                                  ///< Index of the first kind of layer.
  std::array<BlockMessage, 2> messages_;
  bool everywhere_, several_, splits_, complete_ = true, stages_ = false;
  Bytes cached_at_end_;
};

}  // namespace rehearse
