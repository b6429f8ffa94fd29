#pragma once
// Which blocks of a network the chunks of a pipeline hold.

#include <tuple>
#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/model/network.hpp"
#include "core/schedule/schedule.hpp"

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

/// Whether the schedule has an order for the shape.
[[nodiscard]] bool runs(const Schedule& schedule, const PipelineShape& shape);
/// Whether some chunk's successor is on the stage before, not counting the way round from the last stage to the first.
[[nodiscard]] bool runs_back(const Schedule& schedule, const PipelineShape& shape);
/// Whether each chunk is on the stage after that of the one before, the first stage being after the last.
[[nodiscard]] bool goes_round(const Schedule& schedule, const PipelineShape& shape);
/// The place of a chunk's copy among the chunks of its stage.
[[nodiscard]] inline int place_of(int chunk, int copy, const PipelineShape& shape) {
  return copy * shape.virtual_stages + chunk / shape.stages;
}

/// The chunks of pp stages, placed as the schedule does.
class ChunkLayout {
 public:
  ChunkLayout(const Network& network, const StrategySettings& settings, const Schedule& schedule);

  /// Whether chunks between the first and the last are alike; contents are by ChunkKind then, otherwise by chunk.
  [[nodiscard]] bool by_kind() const { return by_kind_; }
  /// Whether all chunks hold as many layers of the only kind.
  [[nodiscard]] bool equal() const { return equal_; }
  [[nodiscard]] const std::vector<ChunkContent>& contents() const { return contents_; }
  /// Chunks that a stage holds, copies among them.
  [[nodiscard]] int places() const { return static_cast<int>(placed_.front().size()); }
  /// Index of the content of a stage's chunk.
  [[nodiscard]] int content(int stage, int place) const { return content_of_chunk(nth(nth(placed_, stage), place)); }
  [[nodiscard]] int content_of_chunk(int chunk) const {
    return by_kind_ ? static_cast<int>(chunk_kind(chunk, stages_ * per_stage_)) : chunk;
  }
  /// Whether chunks are placed as goes_round() says.
  [[nodiscard]] bool round() const { return round_; }
  /// Copies of each chunk.
  [[nodiscard]] int copies() const { return places() / per_stage_; }
  /// What the stage's chunks hold: indices of contents, each with how many chunks hold it.
  [[nodiscard]] const std::vector<std::pair<int, int>>& contents_of(int stage) const { return nth(of_stage_, stage); }
  /// Blocks of the stage before those of the chunk, in the order of the pass (0 forward, 1 backward).
  [[nodiscard]] int blocks_before(int stage, int place, int direction) const {
    return nth(before_, (stage * places() + place) * 2 + direction);
  }
  /// The network with its layers in the order of the stages, so that one chunk a stage, of so many layers each, holds
  /// what its chunks do.
  [[nodiscard]] Network by_stage(const Network& network, std::vector<std::int64_t>& layers_per_stage) const;

 private:
  int stages_, per_stage_;
  bool by_kind_ = true, equal_ = true, round_;
  std::vector<ChunkContent> contents_;
  std::vector<std::vector<int>> placed_;  ///< By stage and place: the chunk.
  std::vector<std::vector<std::pair<int, int>>> of_stage_;
  std::vector<int> before_;
};

}  // namespace rehearse
