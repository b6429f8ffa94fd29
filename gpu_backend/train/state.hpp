#pragma once
// What a run has learned: parameters, what its optimizer keeps, scales of fp8. Plans of one run that divide it
// differently have the same state, by the same names, so a checkpoint of one can be taken up by another.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/program/program.hpp"
#include "gpu_backend/train/checkpoint_file.hpp"

namespace rehearse {

/// Whether a persistent tensor is state: others, gradients among them, are written before a step reads them.
[[nodiscard]] bool is_state(const Tensor& tensor);
/// The same under every plan for state.
[[nodiscard]] StateName state_name(const Tensor& tensor, int layer);

/// One piece of state as a whole.
struct StateShape {
  std::vector<std::int64_t> shape;
  DType dtype = DType::fp32;
  std::vector<std::int64_t> segments = {};  ///< As Tensor::segments.
};
using State = std::map<StateName, StateShape>;

/// Of all ranks together.
[[nodiscard]] State state_of(const Program& program);
/// The update rules of a Program, in alphabetical order.
[[nodiscard]] std::vector<std::string> optimizers_of(const Program& program);

/// Throws Error (usage) that says what differs where files of all ranks are not from a run of the same model,
/// optimizer, precision and samples: `where` they are, and what to set. Learning rates may differ, and how it is
/// divided.
void check_same_run(std::span<const CheckpointHeader* const> files, const Program& program, Numerics numerics,
                    const std::string& where);

}  // namespace rehearse
