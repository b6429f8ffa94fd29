#pragma once
// What an input task reads: tokens, labels, images or noise of the samples that a rank holds, as its operand stores
// them.

#include <cstddef>
#include <vector>

#include "core/program/program.hpp"
#include "gpu_backend/execute/operator.hpp"
#include "gpu_backend/train/data.hpp"

namespace rehearse {

/// Throws Error (unavailable) for an input that no data source has, with those there are, or that this one lacks.
void check_input(const Program& program, const DataSource& data, const InputTask& task);

/// The elements of `out`, in the order of its storage. `first_sample` is the number in the step of the microbatch's
/// first. Halos are zero: neighbours fill them.
[[nodiscard]] std::vector<std::byte> input_values(const Program& program, const DataSource& data, const InputTask& task,
                                                  const TensorView& out, std::int64_t first_sample, std::int64_t step);

}  // namespace rehearse
