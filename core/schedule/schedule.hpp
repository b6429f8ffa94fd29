#pragma once
// Pipeline schedules: in which order a stage runs the passes of its model chunks. One file per schedule; a schedule knows
// nothing of models, tensors or costs.

#include <memory>
#include <string>
#include <vector>

#include "core/registry/registry.hpp"

namespace rehearse {

enum class Pass : unsigned char { forward, backward, backward_input, backward_weight };

/// One pass of one chunk for one microbatch.
struct Slot {
  Pass pass;
  int chunk;       ///< Model chunk, 0 .. stages * virtual_stages - 1, in model order.
  int microbatch;
  int copy = 0;    ///< Which copy of the chunk, where a chunk has several.
  bool operator==(const Slot&) const = default;
};

struct PipelineShape {
  int stages = 1;          ///< Pipeline ranks p.
  int virtual_stages = 1;  ///< Chunks per rank v.
  int microbatches = 1;    ///< m.
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  /// Throws Error (usage) for shapes the schedule cannot run, with the rule and what would satisfy it.
  virtual void check(const PipelineShape& shape) const = 0;
  /// Stage that holds `chunk`. Default: chunk modulo stages.
  [[nodiscard]] virtual int stage_of(int chunk, const PipelineShape& shape) const { return chunk % shape.stages; }
  /// Every pass of `stage`, in the order its compute stream runs them.
  [[nodiscard]] virtual std::vector<Slot> order(int stage, const PipelineShape& shape) const = 0;
  /// Idle over ideal time with equal stages and free communication.
  [[nodiscard]] virtual double bubble_ratio(const PipelineShape& shape) const = 0;
  /// Chunk activations alive at once on `stage`, in units of one microbatch through one chunk.
  [[nodiscard]] virtual int chunks_in_flight(int stage, const PipelineShape& shape) const = 0;
};

[[nodiscard]] Registry<std::shared_ptr<const Schedule>>& schedules();

}  // namespace rehearse
