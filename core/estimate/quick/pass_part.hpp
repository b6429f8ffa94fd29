#pragma once
// What a body does in a pass, which pass an entry is a part of, and where on a role the last pass ends.

#include <array>
#include <set>
#include <vector>

#include "core/program/body.hpp"
#include "core/program/program.hpp"
#include "core/schedule/schedule.hpp"

namespace rehearse {

/// What a body does in a pass, told by its tasks.
struct PassPart {
  enum class Kind { pass, send, receive, input, call } kind = Kind::call;
  int task = -1;  ///< The message.
};
[[nodiscard]] PassPart part_of(const Body& body);

/// Streams on which calls run beside passes: those between replicas, copies to and from the host, and its own work.
[[nodiscard]] std::vector<StreamId> side_streams(const Program& program);

/// The passes of one stage of a lowered Program: which of them an entry with a block's work is a part of.
class StagePasses {
 public:
  StagePasses(const Program& program, const Schedule& schedule, int stage);
  struct Place {
    Pass pass;
    int chunk;  ///< Among the chunks of the stage.
    int block;  ///< In the order of the pass.
  };
  [[nodiscard]] Place of(const Entry& entry, Phase phase) const;
  /// Whether the entry's chunk lies on the stage.
  [[nodiscard]] bool has(const Entry& entry) const { return chunk_of(entry) != chunks_.end(); }
  /// Chunks of the stage.
  [[nodiscard]] int chunks() const { return static_cast<int>(chunks_.size()); }

 private:
  [[nodiscard]] std::vector<ChunkPlacement>::const_iterator chunk_of(const Entry& entry) const;
  bool splits_;
  std::vector<ChunkPlacement> chunks_;   ///< By copy, then along the model.
  std::set<std::array<int, 3>> halves_;  ///< Chunk, copy and microbatch of backwards that come in halves.
};

/// A copy of tokens or labels to the device that the pass needs after `offset` seconds of its compute.
struct InputCopy {
  double offset = 0;
  double seconds = 0;
};

/// A role up to its last pass, and from there on.
struct Stage {
  int role = 0;
  int tail = 0;  ///< First entry after the last pass.
};

}  // namespace rehearse
