// Attention in one pass with an online softmax (Dao et al. 2022), on plain arithmetic: a warp per query row, or per key
// row for the gradients of keys and values. For fp32, fp64 and head widths that the tensor-core kernels do not take.

#include <limits>

#include "gpu_backend/cuda/kernels/attention.cuh"
#include "gpu_backend/cuda/kernels/numbers.cuh"

namespace rehearse::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kPerLane = kMaxHeadDim / kWarp;  // Elements of a row that a lane keeps.

/// The row's elements, one in 32 per lane.
template <class A>
struct Row {
  A at[kPerLane];
};

template <class A, class T>
__device__ Row<A> load_row(const T* from, std::int64_t width) {
  Row<A> out;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const std::int64_t c = static_cast<std::int64_t>(threadIdx.x) + i * kWarp;
    out.at[i] = c < width ? static_cast<A>(widen(from[c])) : A(0);
  }
  return out;
}
template <class A, class T>
__device__ void store_row(const Row<A>& row, T* to, std::int64_t width, A factor) {
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const std::int64_t c = static_cast<std::int64_t>(threadIdx.x) + i * kWarp;
    if (c < width) to[c] = narrow<T>(row.at[i] * factor);
  }
}
/// to += factor * from, lane by lane.
template <class A, class T>
__device__ void add_row(Row<A>& to, A factor, const T* from, std::int64_t width) {
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const std::int64_t c = static_cast<std::int64_t>(threadIdx.x) + i * kWarp;
    if (c < width) to.at[i] += factor * static_cast<A>(widen(from[c]));
  }
}

/// The product of a row in shared memory and one in device memory, by one lane.
template <class A, class T>
__device__ A dot(const A* a, const T* b, std::int64_t width) {
  A sum{0};
  for (std::int64_t c = 0; c < width; ++c) sum += a[c] * static_cast<A>(widen(b[c]));
  return sum;
}
template <class A, class T>
__device__ void to_shared(A* to, const T* from, std::int64_t width) {
  for (std::int64_t c = threadIdx.x; c < width; c += kWarp) to[c] = static_cast<A>(widen(from[c]));
  __syncwarp();
}

/// Which batch element, head and row a warp works on.
struct Job {
  std::int64_t b, h, row;
};
__device__ Job job_of(std::int64_t number, std::int64_t heads, std::int64_t rows) {
  return {number / (heads * rows), number / rows % heads, number % rows};
}

template <class T>
__global__ void forward_kernel(const T* q, const T* k, const T* v, T* out, Acc<T>* lse, AttentionShape z) {
  using A = Acc<T>;
  __shared__ A query_row[kWarps][kMaxHeadDim];
  A* mine = query_row[threadIdx.y];
  const std::int64_t jobs = z.batch * z.heads * z.queries, step = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.y; n < jobs; n += step) {
    const Job at = job_of(n, z.heads, z.queries);
    const std::int64_t shared_head = at.h / (z.heads / z.kv_heads);
    __syncwarp();
    to_shared(mine, q + place(at.b, at.row, at.h, z.queries, z.apart.q, z.d), z.d);
    Row<A> sum{};
    A largest = -std::numeric_limits<A>::infinity(), total{0};
    for (std::int64_t from = 0; from < z.keys; from += kWarp) {
      const std::int64_t j = from + threadIdx.x;
      const bool seen = j < z.keys && !hidden(z, at.row, j);
      const A s =
          seen ? static_cast<A>(z.scale) * dot(mine, k + place(at.b, j, shared_head, z.keys, z.apart.k, z.d), z.d)
               : -std::numeric_limits<A>::infinity();
      const A now = Max::of(largest, over_warp<Max>(s));
      if (now == -std::numeric_limits<A>::infinity()) continue;  // Nothing seen yet.
      const A p = seen ? exp(s - now) : A(0), shrink = exp(largest - now);
      total = total * shrink + over_warp<Sum>(p);
      const A used = seen ? p * kept<A>(z, at.b, at.h, at.row, j) : A(0);
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) sum.at[i] *= shrink;
      for (int lane = 0; lane < kWarp && from + lane < z.keys; ++lane)
        add_row(sum, __shfl_sync(0xffffffffu, used, lane),
                v + place(at.b, from + lane, shared_head, z.keys, z.apart.v, z.v), z.v);
      largest = now;
    }
    store_row(sum, out + place(at.b, at.row, at.h, z.queries, z.heads * z.v, z.v), z.v,
              total > A(0) ? A(1) / total : A(0));
    if (threadIdx.x == 0) lse[(at.b * z.queries + at.row) * z.heads + at.h] = largest + log(total);
  }
}

template <class T>
__global__ void delta_kernel(const T* dout, const T* out, Acc<T>* delta, AttentionShape z) {
  using A = Acc<T>;
  const std::int64_t jobs = z.batch * z.heads * z.queries, step = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.y; n < jobs; n += step) {
    const Job at = job_of(n, z.heads, z.queries);
    const std::int64_t row = place(at.b, at.row, at.h, z.queries, z.heads * z.v, z.v);
    A sum{0};
    for (std::int64_t c = threadIdx.x; c < z.v; c += kWarp)
      sum += static_cast<A>(widen(dout[row + c])) * static_cast<A>(widen(out[row + c]));
    sum = over_warp<Sum>(sum);
    if (threadIdx.x == 0) delta[n] = sum;
  }
}

/// What one (query, key) pair contributes: its probability with dropout, and the gradient of its score over the scale.
template <class A>
struct Pair {
  A p, ds;
};
template <class A>
__device__ Pair<A> pair(const AttentionShape& z, const Job& at, std::int64_t query, std::int64_t key, A product,
                        A dproduct, A lse, A delta) {
  const A p = exp(static_cast<A>(z.scale) * product - lse), keep = kept<A>(z, at.b, at.h, query, key);
  return {p * keep, p * (dproduct * keep - delta)};
}

template <class T>
__global__ void query_grad_kernel(const T* dout, const T* q, const T* k, const T* v, const Acc<T>* lse,
                                  const Acc<T>* delta, T* dq, AttentionShape z) {
  using A = Acc<T>;
  __shared__ A rows[kWarps][2][kMaxHeadDim];
  A *query_row = rows[threadIdx.y][0], *grad_row = rows[threadIdx.y][1];
  const std::int64_t jobs = z.batch * z.heads * z.queries, step = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.y; n < jobs; n += step) {
    const Job at = job_of(n, z.heads, z.queries);
    const std::int64_t shared_head = at.h / (z.heads / z.kv_heads);
    __syncwarp();
    to_shared(query_row, q + place(at.b, at.row, at.h, z.queries, z.apart.q, z.d), z.d);
    to_shared(grad_row, dout + place(at.b, at.row, at.h, z.queries, z.heads * z.v, z.v), z.v);
    const A row_lse = lse[(at.b * z.queries + at.row) * z.heads + at.h];
    Row<A> sum{};
    for (std::int64_t from = 0; from < z.keys; from += kWarp) {
      const std::int64_t j = from + threadIdx.x;
      A ds{0};
      if (j < z.keys && !hidden(z, at.row, j))
        ds = pair(z, at, at.row, j, dot(query_row, k + place(at.b, j, shared_head, z.keys, z.apart.k, z.d), z.d),
                  dot(grad_row, v + place(at.b, j, shared_head, z.keys, z.apart.v, z.v), z.v), row_lse, delta[n])
                 .ds;
      for (int lane = 0; lane < kWarp && from + lane < z.keys; ++lane)
        add_row(sum, __shfl_sync(0xffffffffu, ds, lane),
                k + place(at.b, from + lane, shared_head, z.keys, z.apart.k, z.d), z.d);
    }
    store_row(sum, dq + place(at.b, at.row, at.h, z.queries, z.apart.dq, z.d), z.d, static_cast<A>(z.scale));
  }
}

template <class T>
__global__ void key_grad_kernel(const T* dout, const T* q, const T* k, const T* v, const Acc<T>* lse,
                                const Acc<T>* delta, T* dk, T* dv, AttentionShape z) {
  using A = Acc<T>;
  __shared__ A rows[kWarps][2][kMaxHeadDim];
  A *key_row = rows[threadIdx.y][0], *value_row = rows[threadIdx.y][1];
  const std::int64_t group = z.heads / z.kv_heads, jobs = z.batch * z.kv_heads * z.keys,
                     step = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.y; n < jobs; n += step) {
    Job at = job_of(n, z.kv_heads, z.keys);
    const std::int64_t shared_head = at.h;
    __syncwarp();
    to_shared(key_row, k + place(at.b, at.row, shared_head, z.keys, z.apart.k, z.d), z.d);
    to_shared(value_row, v + place(at.b, at.row, shared_head, z.keys, z.apart.v, z.v), z.v);
    Row<A> key_sum{}, value_sum{};
    for (at.h = shared_head * group; at.h < (shared_head + 1) * group; ++at.h)
      for (std::int64_t from = 0; from < z.queries; from += kWarp) {
        const std::int64_t i = from + threadIdx.x;
        Pair<A> of{A(0), A(0)};
        if (i < z.queries && !hidden(z, i, at.row))
          of = pair(z, at, i, at.row, dot(key_row, q + place(at.b, i, at.h, z.queries, z.apart.q, z.d), z.d),
                    dot(value_row, dout + place(at.b, i, at.h, z.queries, z.heads * z.v, z.v), z.v),
                    lse[(at.b * z.queries + i) * z.heads + at.h], delta[(at.b * z.heads + at.h) * z.queries + i]);
        for (int lane = 0; lane < kWarp && from + lane < z.queries; ++lane) {
          add_row(key_sum, __shfl_sync(0xffffffffu, of.ds, lane),
                  q + place(at.b, from + lane, at.h, z.queries, z.apart.q, z.d), z.d);
          add_row(value_sum, __shfl_sync(0xffffffffu, of.p, lane),
                  dout + place(at.b, from + lane, at.h, z.queries, z.heads * z.v, z.v), z.v);
        }
      }
    store_row(key_sum, dk + place(at.b, at.row, shared_head, z.keys, z.apart.dk, z.d), z.d, static_cast<A>(z.scale));
    store_row(value_sum, dv + place(at.b, at.row, shared_head, z.keys, z.apart.dv, z.v), z.v, A(1));
  }
}

/// A warp per row.
template <class A>
__global__ void merge_kernel(Reals out, Reals lse, Reals more, Reals more_lse, std::int64_t rows, std::int64_t width) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.y; r < rows; r += step) {
    const A a = get<A>(lse, r), b = get<A>(more_lse, r), top = Max::of(a, b);
    const A sum = top + log(exp(a - top) + exp(b - top)), of_a = exp(a - sum), of_b = exp(b - sum);
    for (std::int64_t i = r * width + threadIdx.x; i < (r + 1) * width; i += kWarp)
      put(out, i, of_a * get<A>(out, i) + of_b * get<A>(more, i));
    __syncwarp();
    if (threadIdx.x == 0) put(lse, r, sum);
  }
}

template <class A>
struct Fill {
  Reals x;
  A value;
  template <int>
  __device__ void at(std::int64_t i) const {
    put(x, i, value);
  }
};

void check_width(const AttentionShape& z) {
  if (z.d > kMaxHeadDim || z.v > kMaxHeadDim)
    throw Error(ErrorKind::unavailable, "attention heads of more than " + std::to_string(kMaxHeadDim) + " elements",
                "cuda", "kernels.attention=unfused takes any width");
}

bool aligned(std::initializer_list<const void*> pointers) {
  for (const void* p : pointers)
    if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) return false;
  return true;
}

dim3 grid_of(std::int64_t jobs) { return dim3(blocks_for((jobs + kWarps - 1) / kWarps)); }

}  // namespace

void attention_delta(cudaStream_t stream, Reals dout, Reals to, void* delta, const AttentionShape& z) {
  with_real(dout.type, [&](auto t) {
    using T = decltype(t);
    launch(&delta_kernel<T>, grid_of(z.batch * z.heads * z.queries), dim3(kWarp, kWarps), 0, stream, in<T>(dout),
           in<T>(to), static_cast<Acc<T>*>(delta), z);
  });
}

void attention(cudaStream_t stream, Reals q, Reals k, Reals v, Reals to, Reals lse, const AttentionShape& z) {
  check_width(z);
  if (on_tensor_cores(z, q.type) && aligned({q.data, k.data, v.data, to.data}))
    return attention_mma(stream, q, k, v, to, lse, z);
  with_real(q.type, [&](auto t) {
    using T = decltype(t);
    launch(&forward_kernel<T>, grid_of(z.batch * z.heads * z.queries), dim3(kWarp, kWarps), 0, stream, in<T>(q),
           in<T>(k), in<T>(v), out<T>(to), static_cast<Acc<T>*>(lse.data), z);
  });
}

std::size_t attention_scratch_bytes(const AttentionShape& z, ElementType type) {
  return static_cast<std::size_t>(z.batch * z.heads * z.queries) * (type == ElementType::real64 ? 8 : 4);
}

void attention_grad(cudaStream_t stream, Reals dout, Reals q, Reals k, Reals v, Reals result, Reals lse, Reals dq,
                    Reals dk, Reals dv, const AttentionShape& z, void* scratch) {
  check_width(z);
  attention_delta(stream, dout, result, scratch, z);
  if (on_tensor_cores(z, q.type) && aligned({dout.data, q.data, k.data, v.data, dq.data, dk.data, dv.data}))
    return attention_grad_mma(stream, dout, q, k, v, lse, dq, dk, dv, z, static_cast<const float*>(scratch));
  with_real(q.type, [&](auto t) {
    using T = decltype(t);
    using A = Acc<T>;
    const A *sums = static_cast<const A*>(lse.data), *delta = static_cast<const A*>(scratch);
    launch(&query_grad_kernel<T>, grid_of(z.batch * z.heads * z.queries), dim3(kWarp, kWarps), 0, stream, in<T>(dout),
           in<T>(q), in<T>(k), in<T>(v), sums, delta, out<T>(dq), z);
    launch(&key_grad_kernel<T>, grid_of(z.batch * z.kv_heads * z.keys), dim3(kWarp, kWarps), 0, stream, in<T>(dout),
           in<T>(q), in<T>(k), in<T>(v), sums, delta, out<T>(dk), out<T>(dv), z);
  });
}

void attention_merge(cudaStream_t stream, Reals to, Reals lse, Reals more, Reals more_lse, std::int64_t rows,
                     std::int64_t width) {
  with_sums_of(to.type, [&](auto a) {
    launch(&merge_kernel<decltype(a)>, grid_of(rows), dim3(kWarp, kWarps), 0, stream, to, lse, more, more_lse, rows,
           width);
  });
}

void fill(cudaStream_t stream, Reals x, std::int64_t n, double value) {
  with_sums_of(x.type, [&](auto a) { each_one(stream, Fill<decltype(a)>{x, static_cast<decltype(a)>(value)}, n); });
}

}  // namespace rehearse::cuda
