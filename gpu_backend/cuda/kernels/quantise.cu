// Casts to fp8. Scaling and rounding are in fp64, as the CPU's: a product that is rounded before it is compared would
// fall to the other side of a tie.

#include "gpu_backend/cuda/kernels/parts.cuh"
#include "gpu_backend/cuda/kernels/quantise.hpp"

namespace rehearse::cuda {

namespace {

__device__ inline double absolute(double x) { return x < 0 ? -x : x; }
/// To nearest, ties to even; too large becomes the largest.
__device__ inline double rounded(double x, const Fp8Format& f) {
  if (x == 0 || x != x) return x;
  const int own = ilogb(x), exponent = own > f.smallest ? own : f.smallest;
  const double step = ldexp(1.0, exponent - f.mantissa), near = rint(x / step) * step;
  return near > f.largest ? f.largest : near < -f.largest ? -f.largest : near;
}
__device__ inline double scale_for(double largest, const Fp8Format& f) {
  return largest > 0 ? f.largest / largest : 1.0;
}

struct AbsoluteOf {
  Reals x;
  __device__ double operator()(std::int64_t i) const { return absolute(get<double>(x, i)); }
};

struct CastByScale {
  Reals from, to, scales;
  std::int64_t which;
  Fp8Format format;
  bool of_largest;
  template <int>
  __device__ void at(std::int64_t i) const {
    const double x = get<double>(from, i), given = get<double>(scales, which),
                 scale = of_largest ? scale_for(given, format) : given;
    put(to, i, scale > 0 ? rounded(x * scale, format) / scale : x);
  }
};

/// A block of threads per block of the matrix.
__global__ void cast_blocks_kernel(Reals from, Reals to, BlockScales z, Fp8Format format) {
  const std::int64_t across = (z.columns + z.wide - 1) / z.wide, jobs = across * ((z.rows + z.high - 1) / z.high);
  for (std::int64_t job = blockIdx.x; job < jobs; job += gridDim.x) {
    const std::int64_t top = job / across * z.high, left = job % across * z.wide;
    const std::int64_t high = top + z.high < z.rows ? z.high : z.rows - top,
                       wide = left + z.wide < z.columns ? z.wide : z.columns - left;
    double most = 0;
    for (std::int64_t i = threadIdx.x; i < high * wide; i += blockDim.x)
      most = Max::of(most, absolute(get<double>(from, (top + i / wide) * z.columns + left + i % wide)));
    double scale = scale_for(over_block<Max>(most, 0.0), format);
    if (z.power_of_two) scale = ldexp(1.0, ilogb(scale));
    for (std::int64_t i = threadIdx.x; i < high * wide; i += blockDim.x) {
      const std::int64_t at = (top + i / wide) * z.columns + left + i % wide;
      put(to, at, rounded(get<double>(from, at) * scale, format) / scale);
    }
  }
}

struct UpdateScales {
  Reals state;
  RoleFormats formats;
  template <int>
  __device__ void at(std::int64_t role) const {
    const double most = get<double>(state, 3 + role);
    put(state, role, most > 0 ? formats.of[role].largest / most : 0.0);
    put(state, 3 + role, 0.0);
  }
};

}  // namespace

std::size_t largest_scratch_bytes(std::int64_t n) { return parts_bytes(n); }
void largest(cudaStream_t stream, Reals x, std::int64_t n, Reals to, std::int64_t at, bool keeps, void* scratch) {
  over_all<Max>(stream, AbsoluteOf{x}, n, to, at, scratch, keeps);
}
void cast_by_scale(cudaStream_t stream, Reals from, Reals to, std::int64_t n, Reals scales, std::int64_t at,
                   const Fp8Format& format) {
  each_one(stream, CastByScale{from, to, scales, at, format, false}, n);
}
void cast_by_largest(cudaStream_t stream, Reals from, Reals to, std::int64_t n, Reals largest, std::int64_t at,
                     const Fp8Format& format) {
  each_one(stream, CastByScale{from, to, largest, at, format, true}, n);
}
void cast_blocks(cudaStream_t stream, Reals from, Reals to, const BlockScales& shape, const Fp8Format& format) {
  BlockScales z = shape;
  z.high = z.high < z.rows ? z.high : z.rows, z.wide = z.wide < z.columns ? z.wide : z.columns;
  if (z.rows == 0 || z.columns == 0) return;
  const std::int64_t jobs = (z.columns + z.wide - 1) / z.wide * ((z.rows + z.high - 1) / z.high);
  launch(&cast_blocks_kernel, dim3(blocks_for(jobs)), dim3(z.high * z.wide > kWarp ? kThreads : kWarp), 0, stream, from,
         to, z, format);
}
void update_scales(cudaStream_t stream, Reals state, const RoleFormats& formats) {
  each_one(stream, UpdateScales{state, formats}, 3);
}

}  // namespace rehearse::cuda
