// Counting the choices of experts and dealing out rows to them. Few choices are counted by a block per expert, which
// goes over all of them; from kSortFrom on they are sorted by expert, so that time no longer grows with experts.

#include "gpu_backend/cuda/kernels/experts.hpp"
#include "gpu_backend/cuda/kernels/numbers.cuh"
#include "gpu_backend/cuda/kernels/order.hpp"

namespace rehearse::cuda {

namespace {

/// How many of n choices are this block's expert; the same in every thread.
__device__ std::int64_t count_of(const std::int64_t* choice, std::int64_t n, std::int64_t expert) {
  std::int64_t mine = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) mine += choice[i] == expert ? 1 : 0;
  return over_block<Sum>(mine, std::int64_t{0});
}

/// What becomes of an expert's count: a share of all choices, or the rows that it takes, at most `most` (0: all).
template <class A>
struct LoadOf {
  Reals load;
  double all;
  __device__ void operator()(std::int64_t expert, std::int64_t n) const {
    put(load, expert, static_cast<A>(static_cast<double>(n) / all));
  }
};
struct CountOf {
  std::int64_t* counts;
  std::int64_t most;
  __device__ void operator()(std::int64_t expert, std::int64_t n) const {
    counts[expert] = most > 0 && n > most ? most : n;
  }
};

template <class F>
__global__ void count_kernel(const std::int64_t* choice, std::int64_t n, std::int64_t experts, F then) {
  for (std::int64_t e = blockIdx.x; e < experts; e += gridDim.x) {
    const std::int64_t all = count_of(choice, n, e);
    if (threadIdx.x == 0) then(e, all);
  }
}
template <class F>
struct OfHistogram {
  const int* counts;
  F then;
  template <int>
  __device__ void at(std::int64_t e) const {
    then(e, counts[e]);
  }
};

template <class F>
void count_each(cudaStream_t stream, const std::int64_t* choice, std::int64_t n, std::int64_t experts, void* scratch,
                F then) {
  if (!worth_sorting(n))
    return launch(&count_kernel<F>, dim3(blocks_for(experts)), dim3(kThreads), 0, stream, choice, n, experts, then);
  auto* counts = static_cast<int*>(scratch);
  histogram(stream, choice, n, counts, experts, counts + kMostExperts);
  each_one(stream, OfHistogram<F>{counts, then}, experts);
}

__global__ void total_kernel(const std::int64_t* counts, std::int64_t n, std::int64_t* sum) {
  std::int64_t mine = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) mine += counts[i];
  mine = over_block<Sum>(mine, std::int64_t{0});
  if (threadIdx.x == 0) *sum = mine;
}

// ---- rows of few choices

/// A choice's place among those of its expert, in order; -1 beyond the capacity. counts[expert]: how many there are.
__global__ void place_kernel(const std::int64_t* choice, std::int64_t* rows, std::int64_t* counts, Dealing z) {
  __shared__ std::int64_t of_warp[kWarp];
  const int in_warp = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp,
            warps = static_cast<int>(blockDim.x) / kWarp;
  for (std::int64_t e = blockIdx.x; e < z.experts; e += gridDim.x) {
    std::int64_t before = 0;
    for (std::int64_t first = 0; first < z.n; first += blockDim.x) {
      const std::int64_t i = first + threadIdx.x;
      const bool mine = i < z.n && choice[i] == e;
      const unsigned votes = __ballot_sync(0xffffffffu, mine);
      std::int64_t place = 0;
      for (unsigned earlier = votes & ((1u << in_warp) - 1u); earlier != 0; earlier &= earlier - 1u) ++place;
      std::int64_t of_mine = 0;
      for (unsigned all = votes; all != 0; all &= all - 1u) ++of_mine;
      __syncthreads();
      if (in_warp == 0) of_warp[warp] = of_mine;
      __syncthreads();
      std::int64_t here = 0;
      for (int w = 0; w < warps; ++w) {
        if (w < warp) place += of_warp[w];
        here += of_warp[w];
      }
      if (mine) rows[i] = z.capacity > 0 && before + place >= z.capacity ? -1 : before + place;
      before += here;
    }
    if (threadIdx.x == 0) counts[e] = before;
  }
}
struct AddFirst {
  const std::int64_t *choice, *first;
  std::int64_t* rows;
  template <int>
  __device__ void at(std::int64_t i) const {
    if (rows[i] >= 0) rows[i] += first[choice[i]];
  }
};

// ---- rows of many

struct KeysOfChoices {
  const std::int64_t* choice;
  std::uint32_t* keys;
  int* numbers;
  template <int>
  __device__ void at(std::int64_t i) const {
    keys[i] = static_cast<std::uint32_t>(choice[i]), numbers[i] = static_cast<int>(i);
  }
};
/// starts[e]: how many choices are of experts before e; starts[experts] is n. An expert that nobody chose begins where
/// the next one does.
struct Starts {
  const std::uint32_t* sorted;
  std::int64_t* starts;
  std::int64_t n, experts;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t here = i < n ? static_cast<std::int64_t>(sorted[i]) : experts;
    for (std::int64_t e = i > 0 ? static_cast<std::int64_t>(sorted[i - 1]) + 1 : 0; e <= here; ++e) starts[e] = i;
  }
};
struct CountsOfStarts {
  const std::int64_t* starts;
  std::int64_t* counts;
  template <int>
  __device__ void at(std::int64_t e) const {
    counts[e] = starts[e + 1] - starts[e];
  }
};
struct PlaceSorted {
  const std::uint32_t* sorted;
  const int* numbers;
  const std::int64_t *starts, *first;
  std::int64_t* rows;
  std::int64_t capacity;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t e = sorted[i], place = i - starts[e];
    rows[numbers[i]] = capacity > 0 && place >= capacity ? -1 : first[e] + place;
  }
};

/// The first row of every expert, by one block: of the counts before it, or of whole buffers.
__global__ void first_rows_kernel(const std::int64_t* counts, std::int64_t* first, Dealing z) {
  __shared__ std::int64_t sums[kMostExperts];
  const auto e = static_cast<std::int64_t>(threadIdx.x);
  std::int64_t mine = 0;
  if (e < z.experts) mine = z.padded || (z.capacity > 0 && counts[e] > z.capacity) ? z.capacity : counts[e];
  sums[e] = mine;
  for (std::int64_t back = 1; back < z.experts; back *= 2) {
    __syncthreads();
    const std::int64_t before = e >= back ? sums[e - back] : 0;
    __syncthreads();
    sums[e] += before;
  }
  if (e < z.experts) first[e] = sums[e] - mine;
}
void first_rows(cudaStream_t stream, const std::int64_t* counts, std::int64_t* first, const Dealing& z) {
  const std::int64_t warps = (z.experts + kWarp - 1) / kWarp;
  launch(&first_rows_kernel, dim3(1), dim3(static_cast<unsigned>(warps * kWarp)), 0, stream, counts, first, z);
}

/// What choices that are sorted need besides: starts, counts and first rows.
std::size_t numbers_of_experts(const Dealing& z) {
  return (static_cast<std::size_t>(3 * z.experts + 1) * sizeof(std::int64_t) + 255) / 256 * 256;
}

void rows_by_sorting(cudaStream_t stream, const std::int64_t* choice, std::int64_t* rows, void* scratch,
                     const Dealing& z) {
  const auto most = static_cast<std::uint32_t>(z.experts);
  auto* starts = static_cast<std::int64_t*>(scratch);
  std::int64_t *counts = starts + z.experts + 1, *first = counts + z.experts;
  const KeyedNumbers all = keyed_numbers(static_cast<std::byte*>(scratch) + numbers_of_experts(z), z.n, most);
  each_one(stream, KeysOfChoices{choice, all.keys, all.numbers}, z.n);
  sort_by_key(stream, all, z.n, most);
  each_one(stream, Starts{all.sorted_keys, starts, z.n, z.experts}, z.n + 1);
  // Without a capacity experts' rows begin where their choices do.
  if (z.capacity > 0) {
    each_one(stream, CountsOfStarts{starts, counts}, z.experts);
    first_rows(stream, counts, first, z);
  }
  each_one(stream, PlaceSorted{all.sorted_keys, all.sorted, starts, z.capacity > 0 ? first : starts, rows, z.capacity},
           z.n);
}

}  // namespace

std::size_t count_scratch_bytes(std::int64_t n, std::int64_t experts) {
  return worth_sorting(n) ? kMostExperts * sizeof(int) + histogram_scratch_bytes(n, experts) : 0;
}
void route_load(cudaStream_t stream, const std::int64_t* choice, Reals load, const Routing& r, void* scratch) {
  with_sums_of(load.type, [&](auto a) {
    count_each(stream, choice, r.tokens * r.k, r.experts, scratch, LoadOf<decltype(a)>{load, r.choices_in_scope});
  });
}
void count_choices(cudaStream_t stream, const std::int64_t* choice, std::int64_t n, std::int64_t* counts,
                   std::int64_t experts, std::int64_t most, void* scratch) {
  count_each(stream, choice, n, experts, scratch, CountOf{counts, most});
}
void sum_counts(cudaStream_t stream, const std::int64_t* counts, std::int64_t n, std::int64_t* sum) {
  launch(&total_kernel, dim3(1), dim3(kThreads), 0, stream, counts, n, sum);
}

std::size_t rows_of_choices_scratch_bytes(const Dealing& z) {
  return numbers_of_experts(z) +
         (worth_sorting(z.n) ? keyed_numbers_bytes(z.n, static_cast<std::uint32_t>(z.experts)) : 0);
}
void rows_of_choices(cudaStream_t stream, const std::int64_t* choice, std::int64_t* rows, void* scratch,
                     const Dealing& z) {
  if (worth_sorting(z.n)) return rows_by_sorting(stream, choice, rows, scratch, z);
  auto* counts = static_cast<std::int64_t*>(scratch);
  launch(&place_kernel, dim3(blocks_for(z.experts)), dim3(kThreads), 0, stream, choice, rows, counts, z);
  first_rows(stream, counts, counts + z.experts, z);
  each_one(stream, AddFirst{choice, counts + z.experts, rows}, z.n);
}

}  // namespace rehearse::cuda
