// Layer and RMS norm over rows, and their gradients. Backward makes the statistics again. A row that fits is held in
// registers by a warp or by a block of four, and read once; longer ones are read again for every sum. Sums over rows:
// column_sums.cu.

#include "gpu_backend/cuda/kernels/parts.cuh"

namespace rehearse::cuda {

namespace {

constexpr unsigned kRowThreads = 128;
constexpr int kDeep = 4;  // Vectors of a held row per thread.

template <class A>
struct Moments {
  A mean, inverse;
};

// ---- held rows: kAcross threads each, blocks of (kAcross, kRowThreads / kAcross)

template <class Op, int kAcross, class A>
__device__ A over_row(A x, A none) {
  if constexpr (kAcross == kWarp)
    return over_warp<Op>(x);
  else
    return over_block<Op>(x, none);
}

template <int kAcross, class T>
struct HeldRow {
  static constexpr int V = kVector<T>;
  using A = Acc<T>;
  Values<V, A> at[kDeep];

  /// Where vector k of this thread begins.
  __device__ static std::int64_t place(int k) { return (static_cast<std::int64_t>(k) * kAcross + threadIdx.x) * V; }
  __device__ void load(const T* row, std::int64_t width) {
#pragma unroll
    for (int k = 0; k < kDeep; ++k)
      if (place(k) < width) at[k] = read<V>(row, place(k));
  }
  /// f(value of `at`, k, j) for each element that there is.
  template <class F>
  __device__ void each_of(std::int64_t width, F f) {
#pragma unroll
    for (int k = 0; k < kDeep; ++k)
      if (place(k) < width) {
#pragma unroll
        for (int j = 0; j < V; ++j) f(at[k].at[j], k, j);
      }
  }
  __device__ A mean(std::int64_t width) {
    A sum{0};
    each_of(width, [&](A v, int, int) { sum += v; });
    return over_row<Sum, kAcross>(sum, A(0)) / static_cast<A>(width);
  }
  __device__ Moments<A> moments(const NormShape& z) {
    const A middle = z.centred ? mean(z.width) : A(0);
    A square{0};
    each_of(z.width, [&](A v, int, int) { square += (v - middle) * (v - middle); });
    square = over_row<Sum, kAcross>(square, A(0));
    return {middle, A(1) / sqrt(square / static_cast<A>(z.width) + static_cast<A>(z.epsilon))};
  }
};

/// f(r) for the rows of this thread. All threads of a block of one row come to each of them.
template <class F>
__device__ void each_row(std::int64_t rows, F f) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; r < rows; r += step) f(r);
}

template <int kAcross, class T>
__global__ void norm_held_kernel(const T* x, const T* weight, const T* bias, T* y, NormShape z) {
  constexpr int V = kVector<T>;
  each_row(z.rows, [&](std::int64_t r) {
    HeldRow<kAcross, T> row;
    row.load(x + r * z.width, z.width);
    const auto m = row.moments(z);
    const T* scale = weight + r % z.runs * z.width;
#pragma unroll
    for (int k = 0; k < kDeep; ++k) {
      const std::int64_t i = row.place(k);
      if (i >= z.width) continue;
      auto v = row.at[k];
      const auto w = read<V>(scale, i);
#pragma unroll
      for (int j = 0; j < V; ++j) v.at[j] = (v.at[j] - m.mean) * m.inverse * w.at[j];
      if (bias != nullptr) {
        const auto b = read<V>(bias, i);
#pragma unroll
        for (int j = 0; j < V; ++j) v.at[j] += b.at[j];
      }
      write<V>(y + r * z.width, i, v);
    }
  });
}

/// As input_grad_kernel; the sums of g and of g times x's distance from its mean are made beside the variance.
template <int kAcross, class T>
__global__ void input_grad_held_kernel(const T* x, const T* dy, const T* weight, T* dx, NormShape z) {
  using A = Acc<T>;
  constexpr int V = kVector<T>;
  each_row(z.rows, [&](std::int64_t r) {
    HeldRow<kAcross, T> row, g;
    row.load(x + r * z.width, z.width);
    g.load(dy + r * z.width, z.width);
    const T* scale = weight + r % z.runs * z.width;
#pragma unroll
    for (int k = 0; k < kDeep; ++k)
      if (row.place(k) < z.width) {
        const auto w = read<V>(scale, row.place(k));
#pragma unroll
        for (int j = 0; j < V; ++j) g.at[k].at[j] *= w.at[j];
      }
    const A n = static_cast<A>(z.width), middle = z.centred ? row.mean(z.width) : A(0);
    A square{0}, sum{0}, along{0};
    row.each_of(z.width, [&](A v, int k, int j) {
      const A away = v - middle;
      square += away * away;
      sum += g.at[k].at[j];
      along += g.at[k].at[j] * away;
    });
    square = over_row<Sum, kAcross>(square, A(0));
    along = over_row<Sum, kAcross>(along, A(0));
    const A mean = z.centred ? over_row<Sum, kAcross>(sum, A(0)) / n : A(0),
            inverse = A(1) / sqrt(square / n + static_cast<A>(z.epsilon)), slope = along * inverse / n;
#pragma unroll
    for (int k = 0; k < kDeep; ++k) {
      if (row.place(k) >= z.width) continue;
      auto v = row.at[k];
#pragma unroll
      for (int j = 0; j < V; ++j) v.at[j] = inverse * (g.at[k].at[j] - mean - (v.at[j] - middle) * inverse * slope);
      write<V>(dx + r * z.width, row.place(k), v);
    }
  });
}

/// As input_grad_held_kernel, plus `beside`; a block takes the rows of a part, and leaves the part's sums for the
/// gradients of weight and bias.
template <int kAcross, class T>
__global__ void grads_held_kernel(const T* x, const T* dy, const T* weight, const T* beside, T* dx, Acc<T>* weighted,
                                  Acc<T>* plain, NormShape z) {
  using A = Acc<T>;
  constexpr int V = kVector<T>, kLanes = static_cast<int>(kRowThreads) / kAcross, kWidest = kAcross * kDeep * V;
  __shared__ A sums[2][kLanes][kWidest];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kRowsOfPart,
                     end = first + kRowsOfPart < z.rows ? first + kRowsOfPart : z.rows;
  HeldRow<kAcross, T> of_weight{}, of_bias{};
  for (std::int64_t r = first + threadIdx.y; r < end; r += kLanes) {
    HeldRow<kAcross, T> row, g;
    row.load(x + r * z.width, z.width);
    g.load(dy + r * z.width, z.width);
    const A n = static_cast<A>(z.width), middle = z.centred ? row.mean(z.width) : A(0);
    A square{0}, sum{0}, along{0};
#pragma unroll
    for (int k = 0; k < kDeep; ++k) {
      if (row.place(k) >= z.width) continue;
      const auto w = read<V>(weight, row.place(k));
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const A away = row.at[k].at[j] - middle, given = g.at[k].at[j] * w.at[j];
        square += away * away;
        sum += given;
        along += given * away;
      }
    }
    square = over_row<Sum, kAcross>(square, A(0));
    along = over_row<Sum, kAcross>(along, A(0));
    const A mean = z.centred ? over_row<Sum, kAcross>(sum, A(0)) / n : A(0),
            inverse = A(1) / sqrt(square / n + static_cast<A>(z.epsilon)), slope = along * inverse / n;
#pragma unroll
    for (int k = 0; k < kDeep; ++k) {
      const std::int64_t i = row.place(k);
      if (i >= z.width) continue;
      const auto w = read<V>(weight, i);
      Values<V, A> v{};
      if (beside != nullptr) v = read<V>(beside, r * z.width + i);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const A given = g.at[k].at[j], normal = (row.at[k].at[j] - middle) * inverse;
        of_weight.at[k].at[j] += given * normal;
        of_bias.at[k].at[j] += given;
        v.at[j] += inverse * (given * w.at[j] - mean - normal * slope);
      }
      write<V>(dx, r * z.width + i, v);
    }
  }
  of_weight.each_of(z.width, [&](A v, int k, int j) { sums[0][threadIdx.y][of_weight.place(k) + j] = v; });
  of_bias.each_of(z.width, [&](A v, int k, int j) { sums[1][threadIdx.y][of_bias.place(k) + j] = v; });
  __syncthreads();
  for (std::int64_t c = threadIdx.y * kAcross + threadIdx.x; c < z.width; c += kRowThreads) {
    A a{0}, b{0};
    for (int lane = 0; lane < kLanes; ++lane) a += sums[0][lane][c], b += sums[1][lane][c];
    weighted[blockIdx.x * z.width + c] = a;
    plain[blockIdx.x * z.width + c] = b;
  }
}

template <int kAcross, class T>
__global__ void moments_held_kernel(const T* x, Acc<T>* to, NormShape z) {
  each_row(z.rows, [&](std::int64_t r) {
    HeldRow<kAcross, T> row;
    row.load(x + r * z.width, z.width);
    const auto m = row.moments(z);
    if (threadIdx.x == 0) to[2 * r] = m.mean, to[2 * r + 1] = m.inverse;
  });
}

// ---- rows of any length, a block each

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

// ---- which of them

template <int N>
using Number = std::integral_constant<int, N>;

/// Calls held(threads across a row) where a row fits, else any(elements of a vector).
template <class T, class Held, class Any>
void by_rows(std::int64_t width, Held held, Any any) {
  constexpr int V = kVector<T>, kBlock = static_cast<int>(kRowThreads);
  if (width % V != 0) return any(Number<1>{});
  if (width <= kWarp * kDeep * V) return held(Number<kWarp>{});
  if (width <= kBlock * kDeep * V) return held(Number<kBlock>{});
  return any(Number<V>{});
}
dim3 held_block(int across) { return dim3(static_cast<unsigned>(across), kRowThreads / static_cast<unsigned>(across)); }
dim3 held_grid(std::int64_t rows, int across) {
  const std::int64_t each = kRowThreads / static_cast<unsigned>(across);
  return dim3(blocks_for((rows + each - 1) / each));
}

}  // namespace

void norm(cudaStream_t stream, Reals x, Reals weight, const void* bias, Reals y, const NormShape& z) {
  with_real(x.type, [&](auto t) {
    using T = decltype(t);
    const auto start = [&](auto kernel, dim3 grid, dim3 block) {
      launch(kernel, grid, block, 0, stream, in<T>(x), in<T>(weight), static_cast<const T*>(bias), out<T>(y), z);
    };
    by_rows<T>(
        z.width,
        [&](auto n) {
          constexpr int kAcross = decltype(n)::value;
          start(&norm_held_kernel<kAcross, T>, held_grid(z.rows, kAcross), held_block(kAcross));
        },
        [&](auto v) { start(&norm_kernel<decltype(v)::value, T>, dim3(blocks_for(z.rows)), dim3(kRowThreads)); });
  });
}

void norm_input_grad(cudaStream_t stream, Reals x, Reals dy, Reals weight, Reals dx, const NormShape& z) {
  with_real(x.type, [&](auto t) {
    using T = decltype(t);
    const auto start = [&](auto kernel, dim3 grid, dim3 block) {
      launch(kernel, grid, block, 0, stream, in<T>(x), in<T>(dy), in<T>(weight), out<T>(dx), z);
    };
    by_rows<T>(
        z.width,
        [&](auto n) {
          constexpr int kAcross = decltype(n)::value;
          start(&input_grad_held_kernel<kAcross, T>, held_grid(z.rows, kAcross), held_block(kAcross));
        },
        [&](auto v) { start(&input_grad_kernel<decltype(v)::value, T>, dim3(blocks_for(z.rows)), dim3(kRowThreads)); });
  });
}

bool takes_norm_grads(const NormShape& z, ElementType type) {
  bool takes = false;
  with_real(type, [&](auto t) {
    by_rows<decltype(t)>(
        z.width, [&](auto) { takes = z.runs == 1 && z.rows > 0; }, [](auto) {});
  });
  return takes;
}

std::size_t norm_grads_scratch_bytes(const NormShape& z, ElementType type) {
  return static_cast<std::size_t>(2 * row_parts(z.rows) * z.width) * (type == ElementType::real64 ? 8 : 4);
}

void norm_grads(cudaStream_t stream, Reals x, Reals dy, Reals weight, const void* beside, Reals dx, Reals dweight,
                void* dbias, const NormShape& z, void* scratch) {
  with_real(x.type, [&](auto t) {
    using T = decltype(t);
    auto* weighted = static_cast<Acc<T>*>(scratch);
    Acc<T>* plain = weighted + row_parts(z.rows) * z.width;
    by_rows<T>(
        z.width,
        [&](auto n) {
          constexpr int kAcross = decltype(n)::value;
          launch(&grads_held_kernel<kAcross, T>, dim3(static_cast<unsigned>(row_parts(z.rows))), held_block(kAcross), 0,
                 stream, in<T>(x), in<T>(dy), in<T>(weight), static_cast<const T*>(beside), out<T>(dx), weighted, plain,
                 z);
        },
        [](auto) { throw std::logic_error("a norm whose rows are not held"); });
    add_row_parts(stream, x.type, weighted, dweight, plain, dbias, z.rows, z.width);
  });
}

void norm_moments(cudaStream_t stream, Reals x, void* to, const NormShape& z) {
  with_real(x.type, [&](auto t) {
    using T = decltype(t);
    const auto start = [&](auto kernel, dim3 grid, dim3 block) {
      launch(kernel, grid, block, 0, stream, in<T>(x), static_cast<Acc<T>*>(to), z);
    };
    by_rows<T>(
        z.width,
        [&](auto n) {
          constexpr int kAcross = decltype(n)::value;
          start(&moments_held_kernel<kAcross, T>, held_grid(z.rows, kAcross), held_block(kAcross));
        },
        [&](auto v) { start(&moments_kernel<decltype(v)::value, T>, dim3(blocks_for(z.rows)), dim3(kRowThreads)); });
  });
}

}  // namespace rehearse::cuda
