// The mixer of Mamba-2, forward: a warp per row of a head's state.

#include "gpu_backend/cuda/kernels/state_space.cuh"

namespace rehearse::cuda {

namespace {

constexpr unsigned kRowThreads = 128;

template <class A>
__global__ void forward_kernel(StateSpaceTensors in, Reals y, StateSpaceShape z, Mixed<A> s) {
  const std::int64_t warps = blockDim.x / kWarp;
  for (std::int64_t r = blockIdx.x * warps + threadIdx.x / kWarp; r < z.batch * z.inner(); r += gridDim.x * warps) {
    const std::int64_t sample = r / z.inner(), head = r % z.inner() / z.head_dim, p = r % z.head_dim;
    const Head<A> h(s, z, sample, head);
    const A d = get<A>(in.d, head);
    Row<A> row;
    row.clear();
    advance(h, p, row, 0, z.tokens, [&](std::int64_t t) {
      const A read = row.times(h.c + t * h.channels, z.state);
      const std::int64_t i = (sample * z.tokens + t) * z.inner() + head * z.head_dim + p;
      if (threadIdx.x % kWarp == 0) put(y, i, (read + d * h.x[t * h.channels + p]) * silu(get<A>(in.z, i)));
    });
  }
}

}  // namespace

std::size_t state_space_scratch_bytes(const StateSpaceShape& shape, ElementType type) {
  Divided<float> counted{nullptr};
  (void)counted.take_mixed(shape);
  return static_cast<std::size_t>(counted.used) * sum_bytes(type);
}

void state_space(cudaStream_t stream, const StateSpaceTensors& in, Reals y, const StateSpaceShape& z, void* scratch) {
  if (z.rows() == 0) return;
  with_sums_of(y.type, [&](auto a) {
    using A = decltype(a);
    Divided<A> divided{static_cast<A*>(scratch)};
    const Mixed<A> s = divided.take_mixed(z);
    mix(stream, in, z, s);
    constexpr std::int64_t kPerBlock = kRowThreads / kWarp;
    launch(&forward_kernel<A>, dim3(blocks_for((z.batch * z.inner() + kPerBlock - 1) / kPerBlock)), dim3(kRowThreads),
           0, stream, in, y, z, s);
  });
}

}  // namespace rehearse::cuda
