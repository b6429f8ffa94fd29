#pragma once
// What a schedule's order of passes says before any price is known: which pass comes after which, and when most is
// alive.

#include <array>
#include <vector>

#include "core/estimate/quick/chunk_layout.hpp"
#include "core/schedule/schedule.hpp"

namespace rehearse {

/// One pass in an order in which all stages' passes can be worked out one after the other.
struct Visit {
  enum Flag : unsigned char { kFirstForward = 1, kLastBackward = 2, kFirstBackward = 4, kPaired = 8, kLast = 16 };
  int in = -1, out = -1;                ///< Message it needs and message it makes; -1 for none.
  unsigned short stage = 0, place = 0;  ///< `place` among the chunks of the stage.
  unsigned short content = 0;           ///< Of the chunk: by ChunkKind, or by chunk.
  unsigned char pass = 0;               ///< A Pass.
  /// Where its messages queue: 0 for activations and 1 for their gradients, of chunks that run back along the stages 2
  /// and 3.
  unsigned char channel = 0;
  /// kPaired: at once with the visit before, which is a forward of the stage. kLastBackward: the last that adds to the
  /// chunk's gradients; kFirstBackward, kLast: the first and the last of its kind of pass, forwards excepted.
  unsigned char flags = 0;
  [[nodiscard]] int direction() const { return channel & 1; }
  bool operator==(const Visit&) const = default;
};

struct QuickOrder {
  std::vector<Visit> visits;
  int messages = 0;
  int sweeps = 0;  ///< Passes one after the other: what it takes where every pass takes one.
};

/// `by_kind`: contents are told by ChunkKind, otherwise by chunk.
[[nodiscard]] QuickOrder make_order(const Schedule& schedule, const PipelineShape& shape, bool by_kind = true);

/// Two orders that begin alike, one of fewer microbatches than the other.
struct ForkedOrder {
  std::vector<Visit> both, near, far;  ///< `both`, and then one of the others.
  int messages = 0;
};
/// Of `shape` with so many microbatches.
[[nodiscard]] ForkedOrder fork_orders(const Schedule& schedule, const PipelineShape& shape, int near, int far,
                                      bool by_kind);

/// A moment before a pass at which as much may be alive as at any.
struct FullMoment {
  unsigned char direction = 0, kind = 0;  ///< Of the pass that begins.
  /// 2 * kind + direction of the pass before, whose message may still be here; -1 for none.
  signed char before = -1;
  std::array<int, kChunkKinds> alive{};  ///< Forwards whose backward is not done, by ChunkKind.
};

/// Those of `stage` that no other outdoes.
[[nodiscard]] std::vector<FullMoment> full_moments(const Schedule& schedule, const PipelineShape& shape, int stage);

}  // namespace rehearse
