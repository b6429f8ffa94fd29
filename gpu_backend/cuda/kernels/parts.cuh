#pragma once
// One number from all elements of a tensor: parts, of which the size says how many, each by a block; then one block
// puts them together in order. The same bits every time.

#include "gpu_backend/cuda/kernels/numbers.cuh"

namespace rehearse::cuda {

inline constexpr std::int64_t kPerPart = 64 * kThreads;
[[nodiscard]] inline std::int64_t parts_of(std::int64_t n) { return n < 1 ? 1 : (n + kPerPart - 1) / kPerPart; }
[[nodiscard]] inline std::size_t parts_bytes(std::int64_t n) {
  return static_cast<std::size_t>(parts_of(n)) * sizeof(double);
}

/// f(i) of all i below n by Op, which 0 does not change.
template <class Op, class F>
__global__ void parts_kernel(F f, std::int64_t n, double* parts) {
  double mine = 0;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kPerPart;
  for (std::int64_t i = first + threadIdx.x; i < first + kPerPart && i < n; i += blockDim.x)
    mine = Op::of(mine, static_cast<double>(f(i)));
  mine = over_block<Op>(mine, 0.0);
  if (threadIdx.x == 0) parts[blockIdx.x] = mine;
}
/// `keeps`: what is at `to` counts too.
template <class Op>
__global__ void together_kernel(const double* parts, std::int64_t n, Reals to, std::int64_t at, bool keeps) {
  double mine = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) mine = Op::of(mine, parts[i]);
  mine = over_block<Op>(mine, 0.0);
  if (threadIdx.x == 0) put(to, at, keeps ? Op::of(mine, get<double>(to, at)) : mine);
}

/// Writes parts_of(n) numbers to `parts`.
template <class Op, class F>
void in_parts(cudaStream_t stream, F f, std::int64_t n, double* parts) {
  launch(&parts_kernel<Op, F>, dim3(static_cast<unsigned>(parts_of(n))), dim3(kThreads), 0, stream, f, n, parts);
}
template <class Op>
void put_together(cudaStream_t stream, const double* parts, std::int64_t count, Reals to, std::int64_t at, bool keeps) {
  launch(&together_kernel<Op>, dim3(1), dim3(1024), 0, stream, parts, count, to, at, keeps);
}
/// Both, to element `at` of `to`. `scratch` holds parts_bytes(n).
template <class Op, class F>
void over_all(cudaStream_t stream, F f, std::int64_t n, Reals to, std::int64_t at, void* scratch, bool keeps = false) {
  auto* parts = static_cast<double*>(scratch);
  in_parts<Op>(stream, f, n, parts);
  put_together<Op>(stream, parts, parts_of(n), to, at, keeps);
}

// Sums over rows in parts of as many rows: what makes parts and what adds them up (column_sums.cu).

inline constexpr std::int64_t kRowsOfPart = 64;  // That one block adds up.
[[nodiscard]] inline std::int64_t row_parts(std::int64_t rows) { return (rows + kRowsOfPart - 1) / kRowsOfPart; }

/// Adds the row_parts(rows) parts [parts, columns] of sums of `of` to dweight, and the second ones to dbias where it is
/// given.
void add_row_parts(cudaStream_t stream, ElementType of, const void* weighted, Reals dweight, const void* plain,
                   void* dbias, std::int64_t rows, std::int64_t columns);

}  // namespace rehearse::cuda
