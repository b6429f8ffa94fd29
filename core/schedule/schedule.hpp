#pragma once
// Pipeline schedules: in which order a stage runs the passes of its model chunks. One file per schedule; a schedule
// knows nothing of models, tensors or costs.

#include <memory>
#include <string>
#include <vector>

#include "core/base/registry.hpp"

namespace rehearse {

/// `backward` gives both gradients; `backward_input` that of the chunk's input, which the stage before waits for,
/// `backward_weight` those of its parameters, for which only the update waits.
enum class Pass : unsigned char { forward, backward, backward_input, backward_weight };

/// How long a chunk's passes take, in any one unit; a whole backward is the sum of its halves.
struct PassTimes {
  double forward = 1;          ///< tF
  double backward_input = 1;   ///< tB
  double backward_weight = 1;  ///< tW
  [[nodiscard]] double all() const { return forward + backward_input + backward_weight; }
};

/// One pass of one chunk for one microbatch.
struct Slot {
  Pass pass;
  int chunk;  ///< Model chunk, 0 .. stages * virtual_stages - 1, in model order.
  int microbatch;
  int copy = 0;         ///< Which copy of the chunk, where a chunk has several.
  bool paired = false;  ///< Runs interleaved with the slot before it: both begin together and are done together.
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
  /// Stage that holds copy `copy` of `chunk`. Default: chunk modulo stages.
  [[nodiscard]] virtual int stage_of(int chunk, const PipelineShape& shape, int copy = 0) const {
    (void)copy;
    return chunk % shape.stages;
  }
  /// Copies of the model's chunks, each with parameters of its own.
  [[nodiscard]] virtual int copies() const { return 1; }
  /// Whether any slot is half a backward.
  [[nodiscard]] virtual bool splits_backward() const { return false; }
  /// Whether any two slots are paired.
  [[nodiscard]] virtual bool pairs() const { return copies() > 1; }
  /// Every pass of `stage`, in the order its compute stream runs them.
  [[nodiscard]] virtual std::vector<Slot> order(int stage, const PipelineShape& shape) const = 0;
  /// Idle over ideal time with equal stages and free communication, from the first pass to the last of any stage.
  [[nodiscard]] virtual double bubble_ratio(const PipelineShape& shape, const PassTimes& times = {}) const = 0;
  /// Whether `bubble_ratio` is exact for passes of these lengths; equal ones are.
  [[nodiscard]] virtual bool states_bubble(const PassTimes& times) const {
    (void)times;
    return true;
  }
  /// Chunk activations alive at once on `stage`, in units of one microbatch through one chunk.
  [[nodiscard]] virtual int chunks_in_flight(int stage, const PipelineShape& shape) const = 0;
};

[[nodiscard]] Registry<std::shared_ptr<const Schedule>>& schedules();

}  // namespace rehearse
