// Layer and RMS norm over rows, and sums of columns. Backward makes the statistics again. Sums over rows go through
// partial sums of fixed row ranges, added in order.

#include "gpu_backend/cuda/kernels/common.cuh"

namespace rehearse::cuda {

namespace {

constexpr unsigned kRowThreads = 128;
constexpr std::int64_t kRowsPerPart = 64;  // Rows that one block adds up.
constexpr unsigned kColumnThreads = 32, kRowLanes = 8;

template <class A>
struct Moments {
  A mean, inverse;
};

/// Of one row, by one block.
template <int V, class T>
__device__ Moments<Acc<T>> moments(const T* x, std::int64_t n, double epsilon, bool centred) {
  using A = Acc<T>;
  A mean{0}, square{0};
  if (centred) {
    for (std::int64_t i = threadIdx.x * V; i < n; i += blockDim.x * V) {
      const auto v = read<V>(x, i);
#pragma unroll
      for (int j = 0; j < V; ++j) mean += v.at[j];
    }
    mean = over_block<Sum>(mean, A(0)) / static_cast<A>(n);
  }
  for (std::int64_t i = threadIdx.x * V; i < n; i += blockDim.x * V) {
    const auto v = read<V>(x, i);
#pragma unroll
    for (int j = 0; j < V; ++j) square += (v.at[j] - mean) * (v.at[j] - mean);
  }
  square = over_block<Sum>(square, A(0));
  return {mean, A(1) / sqrt(square / static_cast<A>(n) + static_cast<A>(epsilon))};
}

template <int V, class T>
__global__ void norm_kernel(const T* x, const T* weight, const T* bias, T* y, NormShape z) {
  for (std::int64_t r = blockIdx.x; r < z.rows; r += gridDim.x) {
    const T *row = x + r * z.width, *scale = weight + r % z.runs * z.width;
    const auto m = moments<V>(row, z.width, z.epsilon, z.centred);
    for (std::int64_t i = threadIdx.x * V; i < z.width; i += blockDim.x * V) {
      auto v = read<V>(row, i);
      const auto w = read<V>(scale, i);
      if (bias != nullptr) {
        const auto b = read<V>(bias, i);
#pragma unroll
        for (int j = 0; j < V; ++j) v.at[j] = (v.at[j] - m.mean) * m.inverse * w.at[j] + b.at[j];
      } else {
#pragma unroll
        for (int j = 0; j < V; ++j) v.at[j] = (v.at[j] - m.mean) * m.inverse * w.at[j];
      }
      write<V>(y + r * z.width, i, v);
    }
  }
}

/// dx = inverse * (g - mean(g) - x^ * mean(g x^)) with g = dy * weight and x^ the normalised row.
template <int V, class T>
__global__ void input_grad_kernel(const T* x, const T* dy, const T* weight, T* dx, NormShape z) {
  using A = Acc<T>;
  for (std::int64_t r = blockIdx.x; r < z.rows; r += gridDim.x) {
    const T *row = x + r * z.width, *grad = dy + r * z.width, *scale = weight + r % z.runs * z.width;
    const auto m = moments<V>(row, z.width, z.epsilon, z.centred);
    A mean{0}, along{0};
    for (std::int64_t i = threadIdx.x * V; i < z.width; i += blockDim.x * V) {
      const auto v = read<V>(row, i), g = read<V>(grad, i), w = read<V>(scale, i);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        mean += g.at[j] * w.at[j];
        along += g.at[j] * w.at[j] * (v.at[j] - m.mean) * m.inverse;
      }
    }
    mean = z.centred ? over_block<Sum>(mean, A(0)) / static_cast<A>(z.width) : A(0);
    along = over_block<Sum>(along, A(0)) / static_cast<A>(z.width);
    for (std::int64_t i = threadIdx.x * V; i < z.width; i += blockDim.x * V) {
      auto v = read<V>(row, i);
      const auto g = read<V>(grad, i), w = read<V>(scale, i);
#pragma unroll
      for (int j = 0; j < V; ++j)
        v.at[j] = m.inverse * (g.at[j] * w.at[j] - mean - (v.at[j] - m.mean) * m.inverse * along);
      write<V>(dx + r * z.width, i, v);
    }
  }
}

/// Mean and inverse deviation of every row.
template <int V, class T>
__global__ void moments_kernel(const T* x, Acc<T>* to, NormShape z) {
  for (std::int64_t r = blockIdx.x; r < z.rows; r += gridDim.x) {
    const auto m = moments<V>(x + r * z.width, z.width, z.epsilon, z.centred);
    if (threadIdx.x == 0) to[2 * r] = m.mean, to[2 * r + 1] = m.inverse;
  }
}

/// Partial sums over the rows of a part, per column: of dy (times x^, where moments are given), and of dy alone to
/// `plain`. A row here is `runs` of those that moments are of.
template <class T>
__global__ void column_parts_kernel(const T* dy, const T* x, const Acc<T>* moments_of, Acc<T>* weighted, Acc<T>* plain,
                                    std::int64_t rows, std::int64_t columns, std::int64_t runs) {
  using A = Acc<T>;
  __shared__ A sums[2][kRowLanes][kColumnThreads];
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x,
                     first = static_cast<std::int64_t>(blockIdx.y) * kRowsPerPart;
  A a{0}, b{0};
  const std::int64_t run = c / (columns / runs);
  if (c < columns)
    for (std::int64_t r = first + threadIdx.y; r < first + kRowsPerPart && r < rows; r += kRowLanes) {
      const A g = widen(dy[r * columns + c]);
      if (x != nullptr) {
        const std::int64_t m = 2 * (r * runs + run);
        a += g * (widen(x[r * columns + c]) - moments_of[m]) * moments_of[m + 1];
      }
      b += g;
    }
  sums[0][threadIdx.y][threadIdx.x] = a;
  sums[1][threadIdx.y][threadIdx.x] = b;
  __syncthreads();
  if (threadIdx.y != 0 || c >= columns) return;
  for (unsigned i = 1; i < kRowLanes; ++i) a += sums[0][i][threadIdx.x], b += sums[1][i][threadIdx.x];
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.y) * columns + c;
  if (weighted != nullptr) weighted[at] = a;
  if (plain != nullptr) plain[at] = b;
}

/// Adds the parts, in order, to `sum`.
template <class A, class G>
__global__ void add_parts_kernel(const A* parts, G* sum, std::int64_t count, std::int64_t columns) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= columns) return;
  A total{0};
  for (std::int64_t p = 0; p < count; ++p) total += parts[p * columns + c];
  sum[c] = narrow<G>(static_cast<Acc<G>>(widen(sum[c]) + total));
}

std::int64_t parts_of(std::int64_t rows) { return (rows + kRowsPerPart - 1) / kRowsPerPart; }

template <class A, class G>
void add_parts(cudaStream_t stream, const A* parts, G* sum, std::int64_t rows, std::int64_t columns) {
  launch(&add_parts_kernel<A, G>, dim3(static_cast<unsigned>((columns + 127) / 128)), dim3(128), 0, stream, parts, sum,
         parts_of(rows), columns);
}

template <class T>
void column_parts(cudaStream_t stream, const T* dy, const T* x, const Acc<T>* moments_of, Acc<T>* weighted,
                  Acc<T>* plain, std::int64_t rows, std::int64_t columns, std::int64_t runs = 1) {
  const dim3 grid(static_cast<unsigned>((columns + kColumnThreads - 1) / kColumnThreads),
                  static_cast<unsigned>(parts_of(rows)));
  launch(&column_parts_kernel<T>, grid, dim3(kColumnThreads, kRowLanes), 0, stream, dy, x, moments_of, weighted, plain,
         rows, columns, runs);
}

/// Calls f<V>() with the widest vectors that rows allow.
template <class T, class F>
void by_rows(std::int64_t width, F f) {
  if (width % kVector<T> == 0)
    f(std::integral_constant<int, kVector<T>>{});
  else
    f(std::integral_constant<int, 1>{});
}

}  // namespace

void norm(cudaStream_t stream, Reals x, Reals weight, const void* bias, Reals y, const NormShape& z) {
  with_real(x.type, [&](auto t) {
    using T = decltype(t);
    by_rows<T>(z.width, [&](auto v) {
      launch(&norm_kernel<decltype(v)::value, T>, dim3(blocks_for(z.rows)), dim3(kRowThreads), 0, stream, in<T>(x),
             in<T>(weight), static_cast<const T*>(bias), out<T>(y), z);
    });
  });
}

void norm_input_grad(cudaStream_t stream, Reals x, Reals dy, Reals weight, Reals dx, const NormShape& z) {
  with_real(x.type, [&](auto t) {
    using T = decltype(t);
    by_rows<T>(z.width, [&](auto v) {
      launch(&input_grad_kernel<decltype(v)::value, T>, dim3(blocks_for(z.rows)), dim3(kRowThreads), 0, stream,
             in<T>(x), in<T>(dy), in<T>(weight), out<T>(dx), z);
    });
  });
}

std::size_t norm_scratch_bytes(const NormShape& z, ElementType type) {
  const std::size_t size = type == ElementType::real64 ? 8 : 4;
  return static_cast<std::size_t>(2 * z.rows + 2 * parts_of(z.rows / z.runs) * z.width * z.runs) * size;
}

void norm_weight_grad(cudaStream_t stream, Reals x, Reals dy, Reals dweight, void* dbias, const NormShape& z,
                      void* scratch) {
  with_sum(x.type, dweight.type, [&](auto t, auto g) {
    using T = decltype(t);
    using G = decltype(g);
    using A = Acc<T>;
    const std::int64_t rows = z.rows / z.runs, columns = z.width * z.runs;
    A *moments_of = static_cast<A*>(scratch), *weighted = moments_of + 2 * z.rows,
      *plain = weighted + parts_of(rows) * columns;
    by_rows<T>(z.width, [&](auto v) {
      launch(&moments_kernel<decltype(v)::value, T>, dim3(blocks_for(z.rows)), dim3(kRowThreads), 0, stream, in<T>(x),
             moments_of, z);
    });
    column_parts<T>(stream, in<T>(dy), in<T>(x), moments_of, weighted, dbias != nullptr ? plain : nullptr, rows,
                    columns, z.runs);
    add_parts(stream, weighted, out<G>(dweight), rows, columns);
    if (dbias != nullptr) add_parts(stream, plain, static_cast<G*>(dbias), rows, columns);
  });
}

std::size_t column_scratch_bytes(std::int64_t rows, std::int64_t columns, ElementType type) {
  return static_cast<std::size_t>(parts_of(rows) * columns) * (type == ElementType::real64 ? 8 : 4);
}

void column_sum(cudaStream_t stream, Reals dy, Reals sum, std::int64_t rows, std::int64_t columns, void* scratch) {
  if (rows == 0 || columns == 0) return;
  with_sum(dy.type, sum.type, [&](auto t, auto g) {
    using T = decltype(t);
    using G = decltype(g);
    auto* parts = static_cast<Acc<T>*>(scratch);
    column_parts<T>(stream, in<T>(dy), nullptr, nullptr, nullptr, parts, rows, columns);
    add_parts(stream, parts, out<G>(sum), rows, columns);
  });
}

}  // namespace rehearse::cuda
