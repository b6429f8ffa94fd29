#pragma once
// Launchers of casts to fp8, as kernels.hpp has them: values become the nearest that a format and a scale can express,
// and are stored in the copy's type.

#include "core/program/fp8_format.hpp"
#include "gpu_backend/cuda/kernels/kernels.hpp"

namespace rehearse::cuda {

[[nodiscard]] std::size_t largest_scratch_bytes(std::int64_t n);
/// Element `at` of `to` becomes the largest absolute value of x, or of it and what it is. `scratch` holds
/// largest_scratch_bytes().
void largest(cudaStream_t, Reals x, std::int64_t n, Reals to, std::int64_t at, bool keeps, void* scratch);
/// By the scale that element `at` of `scales` is; 0: values stay as they are.
void cast_by_scale(cudaStream_t, Reals from, Reals to, std::int64_t n, Reals scales, std::int64_t at,
                   const Fp8Format& format);
/// By the scale that brings element `at` of `largest` to the format's largest number.
void cast_by_largest(cudaStream_t, Reals from, Reals to, std::int64_t n, Reals largest, std::int64_t at,
                     const Fp8Format& format);
/// A matrix in blocks of `high` x `wide` that share a scale; `power_of_two` rounds scales down to one.
struct BlockScales {
  std::int64_t rows, columns, high, wide;
  bool power_of_two;
};
void cast_blocks(cudaStream_t, Reals from, Reals to, const BlockScales& shape, const Fp8Format& format);
/// state: scales of inputs, weights and gradients, and their largest values since the last update, which begin at zero
/// again.
struct RoleFormats {
  Fp8Format of[3];
};
void update_scales(cudaStream_t, Reals state, const RoleFormats& formats);

}  // namespace rehearse::cuda
