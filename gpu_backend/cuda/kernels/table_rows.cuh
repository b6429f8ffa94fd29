#pragma once
// Which row of a table a token is at.

#include "gpu_backend/cuda/kernels/common.cuh"

namespace rehearse::cuda {

/// -1 where another rank holds it.
__device__ inline std::int64_t row_of(const TableShape& z, std::int64_t token) {
  const std::int64_t row = token - z.first_row;
  return row >= 0 && row < z.rows ? row : -1;
}

}  // namespace rehearse::cuda
