// Key heads for each of their query heads, and what comes back from those: a thread per number, in the order of memory.

#include "gpu_backend/cuda/kernels/kernels.hpp"
#include "gpu_backend/cuda/kernels/numbers.cuh"

namespace rehearse::cuda {

namespace {

template <class A>
struct RepeatHeads {
  Reals few, many;
  SharedHeads z;
  template <int>
  __device__ void at(std::int64_t i) const {
    put(many, i, get<A>(few, i / z.width / z.copies * z.width + i % z.width));
  }
};

template <class A>
struct SumHeads {
  Reals many, few;
  SharedHeads z;
  template <int>
  __device__ void at(std::int64_t i) const {
    A sum{0};
    for (std::int64_t c = 0; c < z.copies; ++c)
      sum += get<A>(many, (i / z.width * z.copies + c) * z.width + i % z.width);
    put(few, i, sum);
  }
};

}  // namespace

void repeat_heads(cudaStream_t stream, Reals few, Reals many, const SharedHeads& z) {
  with_sums_of(few.type, [&](auto a) {
    each_one(stream, RepeatHeads<decltype(a)>{few, many, z}, z.heads * z.copies * z.width);
  });
}

void sum_heads(cudaStream_t stream, Reals many, Reals few, const SharedHeads& z) {
  with_sums_of(many.type, [&](auto a) { each_one(stream, SumHeads<decltype(a)>{many, few, z}, z.heads * z.width); });
}

}  // namespace rehearse::cuda
