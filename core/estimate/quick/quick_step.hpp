#pragma once
// One scenario's step and its fullest moment, from the tables.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/estimate/quick/quick_blocks.hpp"
#include "core/estimate/quick/quick_estimate.hpp"
#include "core/estimate/quick/quick_mesh.hpp"
#include "core/estimate/quick/quick_pipeline.hpp"

namespace rehearse {

/// What a scenario is put together from.
struct QuickParts {
  const QuickBlocks* blocks = nullptr;
  const QuickMesh* mesh = nullptr;
  const ChunkLayout* layout = nullptr;
  const std::vector<const ChunkPasses*>* chunks = nullptr;  ///< Of `blocks`, by content of the layout.
  ChunkPairs* pairs = nullptr;                              ///< Where the schedule pairs passes.
  MeshAnswers* answers = nullptr;                           ///< Of `mesh`.
  const Schedule* schedule = nullptr;
  int schedule_number = 0;  ///< Its own, for the tables of orders.
  PipelineShape shape;
  bool blocking = false;
  int steps = 1;
  bool late_gathers = false;  ///< Passes wait for parameters that the step before has updated.
};

class QuickStep {
 public:
  /// Fills in step time, breakdown and slowest stage.
  void time(const QuickParts& parts, QuickEstimate& out);
  /// Fills in memory, needed and capacity.
  void memory(const QuickParts& parts, const MemoryRule& rule, QuickEstimate& out);

 private:
  using Moments = std::vector<std::vector<FullMoment>>;  ///< By kind of stage.
  const QuickOrder& order(const QuickParts& parts, const PipelineShape& shape);
  const ForkedOrder& forked(const QuickParts& parts, PipelineShape shape, int near, int far);
  const Moments& moments(const QuickParts& parts);
  void set_costs(const QuickParts& parts);
  void set_calls(const QuickParts& parts);
  [[nodiscard]] static QuickMesh::Part part_of(const QuickParts& parts, int kind, int chunk, Pass pass);
  void memory_by_pass(const QuickParts& parts, const MemoryRule& rule, QuickEstimate& out);
  /// A slot, and whether it is the first and the last of its chunk's of its kind.
  struct EndSlot {
    Slot slot;
    bool first = false, last = false;
  };
  const PassMemory& pass_memory(const QuickParts& parts, int kind, const EndSlot& slot);
  const PassMemory& pair_memory(const QuickParts& parts, int kind, const EndSlot& ahead, const EndSlot& back);
  void walk_memory(const QuickParts& parts, int kind, const EndSlot& ahead, const EndSlot* back, PassMemoryWalk& walk);
  const std::vector<std::array<int, 3>>& pairs_of(const QuickParts& parts, int stage);
  static PipelineShape telling(const QuickParts& parts);
  /// Bytes in the memory of its node of a rank whose passes, one after the other, take so much.
  class HostCourse {
   public:
    explicit HostCourse(const Elsewhere& held) : most_(held), now_(held) {}
    void add(const PassMemory& pass) {
      for (std::size_t s = 0; s < now_.size(); ++s) {
        most_[s] = std::max(most_[s], now_[s] + pass.host_most[s]);
        now_[s] += pass.host_kept[s];
      }
    }
    [[nodiscard]] double bytes() const { return nth(most_, MemorySpace::host) + nth(most_, MemorySpace::pinned_host); }

   private:
    Elsewhere most_, now_;
  };
  static void set_memory(const MeshStage& stage, const Amounts& total, const MemoryRule& rule, QuickEstimate& out);
  const std::vector<EndSlot>& slots(const QuickParts& parts, const PipelineShape& shape, int stage);
  [[nodiscard]] TailStart tail_alone(const QuickParts& parts);
  [[nodiscard]] double start(const QuickParts& parts);
  void play(const QuickParts& parts, std::vector<QuickLane>& lanes);
  void play_chunks(const QuickParts& parts, const PipelineShape& shape, std::vector<QuickLane>& lanes);
  void play_rounds(const QuickParts& parts, const PipelineShape& shape, std::vector<QuickLane>& lanes);
  bool grows_evenly(const QuickParts& parts, int far);
  void walk(const QuickParts& parts);
  [[nodiscard]] Breakdown kernels(const QuickParts& parts, std::size_t kind);
  void choose_slowest(const QuickParts& parts, QuickEstimate& out);

  std::unordered_map<std::uint64_t, QuickOrder> orders_;
  std::unordered_map<std::uint64_t, ForkedOrder> forks_;
  std::unordered_map<std::uint64_t, Moments> moments_;
  QuickPipeline pipeline_;
  QuickCosts costs_;
  std::vector<TailState> tails_;  ///< By kind of stage, as all that follows.
  std::vector<TailMeeting> meetings_;
  const TailEnds* before_ = nullptr;
  std::map<std::array<int, 5>, std::vector<EndSlot>> slots_;  ///< By schedule, shape and stage.
  using BlockList = std::vector<std::pair<const BlockPasses*, int>>;
  std::vector<BlockList> lists_;  ///< 2 * content, and behind it backward.
  /// By kind of stage, chunk of the stage, Pass, and whether first and last: of the scenario at hand.
  std::vector<std::optional<PassMemory>> pass_memories_;
  std::vector<double> host_bytes_;                          ///< By kind of stage.
  std::map<std::array<int, 4>, PassMemory> pair_memories_;  ///< Likewise; places of both.
  /// Contents of pairs and how often they come in a step, by schedule, shape, stage and whether by kind.
  std::map<std::array<int, 6>, std::vector<std::array<int, 3>>> pairs_;
  /// Before the rounds; the last three from the shorter of two that are extrapolated.
  std::vector<QuickLane> lanes_, start_, rounds_, chunks_, stages_;
};

}  // namespace rehearse
