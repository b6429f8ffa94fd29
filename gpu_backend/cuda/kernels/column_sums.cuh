#pragma once
// Sums over rows in parts of as many rows: what makes parts and what adds them up.

#include "gpu_backend/cuda/kernels/common.cuh"

namespace rehearse::cuda {

inline constexpr std::int64_t kRowsOfPart = 64;  // That one block adds up.
[[nodiscard]] inline std::int64_t row_parts(std::int64_t rows) { return (rows + kRowsOfPart - 1) / kRowsOfPart; }

/// Adds the row_parts(rows) parts [parts, columns] of sums of `of` to dweight, and the second ones to dbias where it is
/// given.
void add_row_parts(cudaStream_t stream, ElementType of, const void* weighted, Reals dweight, const void* plain,
                   void* dbias, std::int64_t rows, std::int64_t columns);

}  // namespace rehearse::cuda
