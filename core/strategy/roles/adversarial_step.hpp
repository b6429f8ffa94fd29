#pragma once
// The step of two networks trained against each other, as a role. For each microbatch the discriminator passes over
// real samples and over made ones, then it is updated; for each microbatch it judges the made ones once more, backward
// goes through it to the generator, and that is updated. Each network's gradients are reduced in buckets of their own,
// under its last backward.
//
//   real: D forward, D backward   made: G forward, D forward, D backward   ...   D update   through: D forward, D
//   backward, G backward   ...   G update
//
// Going through, the discriminator's weights get no gradient: the tasks are not there. Before, its input gets none.
// Entries of the three tell themselves apart by Entry::pass, a Shown.

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "core/strategy/roles/roles.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

/// What the lowering of any network has at hand; all outlive the step.
struct AdversarialParts {
  const Workload& workload;
  const LayoutPlan& layouts;
  const StrategySettings& settings;
  const Schedule& schedule;
  const BlockOptions& options;
  const std::vector<int>& block_at;  ///< Block index by position.
  std::vector<BlockTensors>& blocks;
};

class AdversarialStep {
 public:
  /// Makes the bodies. Chunk 0 of the Program is the generator, chunk 1 the discriminator, both on the one stage.
  AdversarialStep(ProgramFrame& frame, const AdversarialParts& parts);
  AdversarialStep(const AdversarialStep&) = delete;
  AdversarialStep& operator=(const AdversarialStep&) = delete;

  /// The role of a replica with so many microbatches.
  [[nodiscard]] Role role(int microbatches);

 private:
  using Made = StepBodies::Made;
  static constexpr std::size_t kShown = 3;
  /// One of the two: its update, its place, and its bodies by block index for each Shown.
  struct Member {
    std::optional<Workload> own;  ///< With an update of its own.
    std::optional<StepBodies> step;
    std::vector<ChunkPlacement> chunk;
    std::array<std::vector<BlockBodies>, kShown> bodies;
  };

  void add_member(Member& member, int first_block, int last_block);
  void make_generator();
  void make_discriminator();
  [[nodiscard]] Made pass_of(std::size_t block, bool forward, Shown shown);
  /// What the generator hands on and the discriminator takes.
  [[nodiscard]] int judged_images() const;
  /// The same calls with another binding of the discriminator's input.
  template <class Change>
  [[nodiscard]] Made rebound(Made made, const Change& change);
  [[nodiscard]] RolePlan plan_of(const Member& member, int microbatches) const;

  class Walk;

  ProgramFrame& frame_;
  const AdversarialParts parts_;
  Member generator_, discriminator_;
  Made real_images_{-1, -1};
  const std::map<int, int> no_groups_{};
  const std::map<int, std::array<StepBodies::Passing, 2>> no_passing_{};
};

}  // namespace rehearse
