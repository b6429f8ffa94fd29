#pragma once
// Which blocks of a network the chunks of a pipeline hold.

#include <tuple>
#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/model/network.hpp"

namespace rehearse {

/// Where a chunk stands in the model: the first has what comes before the layers, the last what comes after.
enum class ChunkKind : unsigned char { first, middle, last, whole };
inline constexpr int kChunkKinds = 4;

/// Of the chunk of that number among so many.
[[nodiscard]] ChunkKind chunk_kind(int chunk, int chunks);

/// What a chunk holds.
struct ChunkContent {
  /// Blocks of the network in its order, each with how often it comes in a row.
  std::vector<std::pair<int, int>> runs;
  bool first = false, last = false;  ///< Whether the model begins with it, and ends.
  bool operator==(const ChunkContent&) const = default;
  bool operator<(const ChunkContent& o) const {
    return std::tie(runs, first, last) < std::tie(o.runs, o.first, o.last);
  }
  [[nodiscard]] int blocks() const;
};

/// The chunks of pp stages with virtual_stages each, of which chunk c is on stage c % pp.
class ChunkLayout {
 public:
  ChunkLayout(const Network& network, const StrategySettings& settings);

  /// Whether chunks between the first and the last are alike; contents are by ChunkKind then, otherwise by chunk.
  [[nodiscard]] bool by_kind() const { return by_kind_; }
  /// Whether all chunks hold as many layers of the only kind.
  [[nodiscard]] bool equal() const { return equal_; }
  [[nodiscard]] const std::vector<ChunkContent>& contents() const { return contents_; }
  /// Index of the content of a stage's chunk.
  [[nodiscard]] int content(int stage, int chunk) const {
    const int number = chunk * stages_ + stage;
    return by_kind_ ? static_cast<int>(chunk_kind(number, stages_ * per_stage_)) : number;
  }
  /// What the stage's chunks hold: indices of contents, each with how many chunks hold it.
  [[nodiscard]] const std::vector<std::pair<int, int>>& contents_of(int stage) const { return nth(of_stage_, stage); }
  /// Blocks of the stage before those of the chunk, in the order of the pass (0 forward, 1 backward).
  [[nodiscard]] int blocks_before(int stage, int chunk, int direction) const {
    return nth(before_, (stage * per_stage_ + chunk) * 2 + direction);
  }
  /// The network with its layers in the order of the stages, so that one chunk a stage, of so many layers each, holds
  /// what its chunks do.
  [[nodiscard]] Network by_stage(const Network& network, std::vector<std::int64_t>& layers_per_stage) const;

 private:
  int stages_, per_stage_;
  bool by_kind_ = true, equal_ = true;
  std::vector<ChunkContent> contents_;
  std::vector<std::vector<std::pair<int, int>>> of_stage_;
  std::vector<int> before_;
};

}  // namespace rehearse
