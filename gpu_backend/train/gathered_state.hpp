#pragma once
// State of a run that another plan wrote: each rank finds the elements of its own tensors in the files of all ranks.

#include <span>
#include <vector>

#include "gpu_backend/execute/executor.hpp"
#include "gpu_backend/train/checkpoint_file.hpp"

namespace rehearse {

[[nodiscard]] std::vector<const CheckpointHeader*> headers_of(const std::vector<CheckpointReader>& files);

/// Fills this rank's state from the files of all ranks; what is no state stays as it is. Padding becomes 0. Throws
/// Error (usage) where the files lack an element.
void load_divided_anew(std::vector<CheckpointReader>& files, Executor& executor, ComputeDevice& device);

}  // namespace rehearse
