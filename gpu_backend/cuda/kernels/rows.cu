// One block per row: softmax of stored scores, and cross-entropy in the pieces that collectives separate.

#include <limits>

#include "gpu_backend/cuda/kernels/common.cuh"
#include "gpu_backend/cuda/kernels/mma.cuh"

namespace rehearse::cuda {

namespace {

constexpr unsigned kRowThreads = 256;

template <class A>
__device__ A lowest() {
  return -std::numeric_limits<A>::infinity();
}

/// Whether column j of row r lies later than the row's query.
__device__ bool later(const Mask& mask, std::int64_t r, std::int64_t j) {
  return mask.causal && mask.key.at(j) > mask.query.at(r % mask.queries);
}

template <class T>
__global__ void softmax_kernel(const T* scores, T* probabilities, std::int64_t rows, std::int64_t n, double factor,
                               Mask mask) {
  using A = Acc<T>;
  const A scale = static_cast<A>(factor);
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T* row = scores + r * n;
    A largest = lowest<A>(), sum{0};
    for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x)
      if (!later(mask, r, j)) largest = Max::of(largest, scale * widen(row[j]));
    largest = over_block<Max>(largest, lowest<A>());
    for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x)
      if (!later(mask, r, j)) sum += exp(scale * widen(row[j]) - largest);
    sum = over_block<Sum>(sum, A(0));
    for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x)
      probabilities[r * n + j] = narrow<T>(later(mask, r, j) ? A(0) : exp(scale * widen(row[j]) - largest) / sum);
  }
}

template <class T>
__global__ void softmax_grad_kernel(const T* probabilities, const T* grad, T* out, std::int64_t rows, std::int64_t n,
                                    double factor) {
  using A = Acc<T>;
  const A scale = static_cast<A>(factor);
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T *p = probabilities + r * n, *g = grad + r * n;
    A dot{0};
    for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x) dot += widen(p[j]) * widen(g[j]);
    dot = over_block<Sum>(dot, A(0));
    for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x)
      out[r * n + j] = narrow<T>(scale * widen(p[j]) * (widen(g[j]) - dot));
  }
}

template <class T>
__global__ void mask_kernel(T* scores, std::int64_t rows, std::int64_t n, Mask mask) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x)
    for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x)
      if (later(mask, r, j)) scores[r * n + j] = narrow<T>(lowest<Acc<T>>());
}

// ---- cross-entropy

/// Column of a row's label, or -1 where another rank holds it.
__device__ std::int64_t column_of(const Logits& z, std::int64_t label) {
  return label >= z.first && label < z.first + z.valid ? label - z.first : -1;
}

template <int V, class T>
__global__ void max_kernel(const T* logits, Acc<T>* max, Logits z) {
  using A = Acc<T>;
  for (std::int64_t r = blockIdx.x; r < z.rows; r += gridDim.x) {
    A largest = lowest<A>();
    for (std::int64_t j = threadIdx.x * V; j < z.valid; j += blockDim.x * V) {
      const auto v = read<V>(logits, r * z.stored + j);
#pragma unroll
      for (int i = 0; i < V; ++i) largest = Max::of(largest, v.at[i]);
    }
    largest = over_block<Max>(largest, lowest<A>());
    if (threadIdx.x == 0) max[r] = largest;
  }
}

template <int V, class T>
__global__ void sums_kernel(const T* logits, const std::int64_t* labels, const Acc<T>* max, Acc<T>* sums, Logits z) {
  using A = Acc<T>;
  for (std::int64_t r = blockIdx.x; r < z.rows; r += gridDim.x) {
    const T* row = logits + r * z.stored;
    const A largest = max[r];
    A sum{0};
    for (std::int64_t j = threadIdx.x * V; j < z.valid; j += blockDim.x * V) {
      const auto v = read<V>(row, j);
#pragma unroll
      for (int i = 0; i < V; ++i) sum += exp(v.at[i] - largest);
    }
    sum = over_block<Sum>(sum, A(0));
    if (threadIdx.x != 0) continue;
    const std::int64_t at = column_of(z, labels[r]);
    sums[2 * r] = sum;
    sums[2 * r + 1] = at >= 0 ? widen(row[at]) - max[r] : A(0);
  }
}

/// Largest value so far, and the sum of exponentials over it.
template <class A>
struct Running {
  A largest = lowest<A>(), sum{0};
  __device__ void add(A x) {
    if (x > largest) {
      sum *= exp(largest - x);
      largest = x;
    }
    sum += exp(x - largest);
  }
  /// Of all threads of the block, in each of them.
  __device__ void over_all() {
    const A top = over_block<Max>(largest, lowest<A>());
    sum = over_block<Sum>(largest == lowest<A>() ? A(0) : sum * exp(largest - top), A(0));
    largest = top;
  }
};

template <int V, class T>
__global__ void max_and_sums_kernel(const T* logits, const std::int64_t* labels, Acc<T>* max, Acc<T>* sums, Logits z) {
  using A = Acc<T>;
  for (std::int64_t r = blockIdx.x; r < z.rows; r += gridDim.x) {
    const T* row = logits + r * z.stored;
    Running<A> all;
    for (std::int64_t j = threadIdx.x * V; j < z.valid; j += blockDim.x * V) {
      const auto v = read<V>(row, j);
#pragma unroll
      for (int i = 0; i < V; ++i) all.add(v.at[i]);
    }
    all.over_all();
    if (threadIdx.x != 0) continue;
    const std::int64_t at = column_of(z, labels[r]);
    max[r] = all.largest;
    sums[2 * r] = all.sum;
    sums[2 * r + 1] = at >= 0 ? widen(row[at]) - all.largest : A(0);
  }
}

constexpr unsigned kHeldThreads = 512;
// Of a row, at most: all GPUs since A100 have so many for a block.
constexpr std::size_t kHeldBytes = std::size_t{160} << 10;

/// The same, and the gradient. A block holds a row, two blocks share a multiprocessor where two rows fit.
template <int V, class T>
__global__ void __launch_bounds__(kHeldThreads) at_once_kernel(const T* logits, const std::int64_t* labels, Acc<T>* max,
                                                               Acc<T>* sums, T* grad, Logits z, double tokens) {
  using A = Acc<T>;
  T* row = reinterpret_cast<T*>(launch_memory());
  for (std::int64_t r = blockIdx.x; r < z.rows; r += gridDim.x) {
    const std::int64_t label = column_of(z, labels[r]);
    Running<A> all;
    for (std::int64_t j = threadIdx.x * V; j < z.valid; j += blockDim.x * V) {
      const auto v = read<V>(logits, r * z.stored + j);
      write<V>(row, j, v);
#pragma unroll
      for (int i = 0; i < V; ++i) all.add(v.at[i]);
    }
    all.over_all();
    if (threadIdx.x == 0) {
      max[r] = all.largest;
      sums[2 * r] = all.sum;
      sums[2 * r + 1] = label >= 0 ? widen(row[label]) - all.largest : A(0);
    }
    const A share = A(1) / all.sum, mean = A(1) / static_cast<A>(tokens);
    // Every thread reads back what it wrote; gradients of padding are zeros.
    for (std::int64_t j = threadIdx.x * V; j < z.stored; j += blockDim.x * V) {
      Values<V, A> v{};
      if (j < z.valid) {
        v = read<V>(row, j);
#pragma unroll
        for (int i = 0; i < V; ++i)
          v.at[i] = (exp(v.at[i] - all.largest) * share - (j + i == label ? A(1) : A(0))) * mean;
      }
      write<V>(grad, r * z.stored + j, v);
    }
    __syncthreads();  // The next row is written where this one was read.
  }
}

template <class T>
__global__ void exponential_kernel(T* logits, const std::int64_t* labels, const Acc<T>* max, Acc<T>* target, Logits z) {
  using A = Acc<T>;
  for (std::int64_t r = blockIdx.x; r < z.rows; r += gridDim.x) {
    T* row = logits + r * z.stored;
    if (threadIdx.x == 0) {
      const std::int64_t at = column_of(z, labels[r]);
      target[r] = at >= 0 ? widen(row[at]) - max[r] : A(0);
    }
    __syncthreads();  // The label's logit is read before it is overwritten.
    for (std::int64_t j = threadIdx.x; j < z.stored; j += blockDim.x)
      row[j] = narrow<T>(j < z.valid ? exp(widen(row[j]) - max[r]) : A(0));
  }
}

template <class T>
__global__ void sum_kernel(const T* x, Acc<T>* sum, Logits z) {
  using A = Acc<T>;
  for (std::int64_t r = blockIdx.x; r < z.rows; r += gridDim.x) {
    A total{0};
    for (std::int64_t j = threadIdx.x; j < z.stored; j += blockDim.x) total += widen(x[r * z.stored + j]);
    total = over_block<Sum>(total, A(0));
    if (threadIdx.x == 0) sum[r] = total;
  }
}

template <class T>
__global__ void normalise_kernel(T* x, const Acc<T>* sum, Logits z) {
  for (std::int64_t r = blockIdx.x; r < z.rows; r += gridDim.x)
    for (std::int64_t j = threadIdx.x; j < z.stored; j += blockDim.x)
      x[r * z.stored + j] = narrow<T>(widen(x[r * z.stored + j]) / sum[r]);
}

/// One block, so that the sum is made in one order. `pairs`: sum and target alternate.
template <class A>
__global__ void loss_kernel(const A* sum, const A* target, A* loss, double* total, std::int64_t rows) {
  double mine = 0;
  for (std::int64_t r = threadIdx.x; r < rows; r += blockDim.x)
    mine += static_cast<double>(target != nullptr ? log(sum[r]) - target[r] : log(sum[2 * r]) - sum[2 * r + 1]);
  mine = over_block<Sum>(mine, 0.0);
  if (threadIdx.x != 0) return;
  *total = mine;
  *loss = static_cast<A>(mine / static_cast<double>(rows > 0 ? rows : 1));
}

template <int V, class T>
__global__ void grad_kernel(const T* from, const std::int64_t* labels, T* to, const Acc<T>* max, const Acc<T>* sums,
                            Logits z, double tokens) {
  using A = Acc<T>;
  for (std::int64_t r = blockIdx.x; r < z.rows; r += gridDim.x) {
    const std::int64_t label = column_of(z, labels[r]);
    const bool of_logits = max != nullptr;
    // Two divisions a row instead of two an element.
    const A largest = of_logits ? max[r] : A(0), share = of_logits ? A(1) / sums[2 * r] : A(1),
            mean = A(1) / static_cast<A>(tokens);
    for (std::int64_t j = threadIdx.x * V; j < z.stored; j += blockDim.x * V) {
      auto v = read<V>(from, r * z.stored + j);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const A p = of_logits ? exp(v.at[i] - largest) * share : v.at[i];
        v.at[i] = j + i < z.valid ? (p - (j + i == label ? A(1) : A(0))) * mean : A(0);
      }
      write<V>(to, r * z.stored + j, v);
    }
  }
}

/// Calls f<V>() with vectors where rows and their padding are made of them.
template <class T, class F>
void by_columns(const Logits& z, F f) {
  if (z.stored % kVector<T> == 0 && z.valid % kVector<T> == 0)
    f(std::integral_constant<int, kVector<T>>{});
  else
    f(std::integral_constant<int, 1>{});
}

dim3 grid_of(std::int64_t rows) { return dim3(blocks_for(rows)); }

/// What is kept of rows of T is stored as sums of T.
template <class T>
Acc<T>* kept(const Reals& x) {
  if (size_of(x.type) != sizeof(Acc<T>)) throw std::logic_error("per-row numbers are stored in the type of sums");
  return static_cast<Acc<T>*>(x.data);
}

}  // namespace

void softmax(cudaStream_t stream, Reals scores, Reals probabilities, std::int64_t rows, std::int64_t columns,
             double scale, const Mask& mask) {
  with_real(scores.type, [&](auto t) {
    using T = decltype(t);
    launch(&softmax_kernel<T>, grid_of(rows), dim3(kRowThreads), 0, stream, in<T>(scores), out<T>(probabilities), rows,
           columns, scale, mask);
  });
}

void softmax_grad(cudaStream_t stream, Reals probabilities, Reals grad, Reals to, std::int64_t rows,
                  std::int64_t columns, double scale) {
  with_real(to.type, [&](auto t) {
    using T = decltype(t);
    launch(&softmax_grad_kernel<T>, grid_of(rows), dim3(kRowThreads), 0, stream, in<T>(probabilities), in<T>(grad),
           out<T>(to), rows, columns, scale);
  });
}

void mask_later(cudaStream_t stream, Reals scores, std::int64_t rows, std::int64_t columns, const Mask& mask) {
  with_real(scores.type, [&](auto t) {
    using T = decltype(t);
    launch(&mask_kernel<T>, grid_of(rows), dim3(kRowThreads), 0, stream, out<T>(scores), rows, columns, mask);
  });
}

void xent_max(cudaStream_t stream, Reals logits, Reals max, const Logits& z) {
  with_real(logits.type, [&](auto t) {
    using T = decltype(t);
    by_columns<T>(z, [&](auto v) {
      launch(&max_kernel<decltype(v)::value, T>, grid_of(z.rows), dim3(kRowThreads), 0, stream, in<T>(logits),
             kept<T>(max), z);
    });
  });
}

void xent_sums(cudaStream_t stream, Reals logits, const std::int64_t* labels, Reals max, Reals sums, const Logits& z) {
  with_real(logits.type, [&](auto t) {
    using T = decltype(t);
    by_columns<T>(z, [&](auto v) {
      launch(&sums_kernel<decltype(v)::value, T>, grid_of(z.rows), dim3(kRowThreads), 0, stream, in<T>(logits), labels,
             kept<T>(max), kept<T>(sums), z);
    });
  });
}

void xent_max_and_sums(cudaStream_t stream, Reals logits, const std::int64_t* labels, Reals max, Reals sums,
                       const Logits& z) {
  with_real(logits.type, [&](auto t) {
    using T = decltype(t);
    by_columns<T>(z, [&](auto v) {
      launch(&max_and_sums_kernel<decltype(v)::value, T>, grid_of(z.rows), dim3(kRowThreads), 0, stream, in<T>(logits),
             labels, kept<T>(max), kept<T>(sums), z);
    });
  });
}

bool fits_in_block(const Logits& z, ElementType type) {
  return static_cast<std::size_t>(z.valid) * size_of(type) <= kHeldBytes;
}

void xent_at_once(cudaStream_t stream, Reals logits, const std::int64_t* labels, Reals max, Reals sums, Reals grad,
                  const Logits& z, double tokens) {
  with_real(logits.type, [&](auto t) {
    using T = decltype(t);
    by_columns<T>(z, [&](auto v) {
      const auto kernel = &at_once_kernel<decltype(v)::value, T>;
      const std::size_t row = static_cast<std::size_t>(z.valid) * sizeof(T);
      REHEARSE_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(row)));
      launch(kernel, grid_of(z.rows), dim3(kHeldThreads), row, stream, in<T>(logits), labels, kept<T>(max),
             kept<T>(sums), out<T>(grad), z, tokens);
    });
  });
}

void xent_exponential(cudaStream_t stream, Reals logits, const std::int64_t* labels, Reals max, Reals target,
                      const Logits& z) {
  with_real(logits.type, [&](auto t) {
    using T = decltype(t);
    launch(&exponential_kernel<T>, grid_of(z.rows), dim3(kRowThreads), 0, stream, out<T>(logits), labels, kept<T>(max),
           kept<T>(target), z);
  });
}

void xent_sum_exp(cudaStream_t stream, Reals exponentials, Reals sum, const Logits& z) {
  with_real(exponentials.type, [&](auto t) {
    using T = decltype(t);
    launch(&sum_kernel<T>, grid_of(z.rows), dim3(kRowThreads), 0, stream, in<T>(exponentials), kept<T>(sum), z);
  });
}

void xent_normalise(cudaStream_t stream, Reals exponentials, Reals sum, const Logits& z) {
  with_real(exponentials.type, [&](auto t) {
    using T = decltype(t);
    launch(&normalise_kernel<T>, grid_of(z.rows), dim3(kRowThreads), 0, stream, out<T>(exponentials), kept<T>(sum), z);
  });
}

void xent_loss(cudaStream_t stream, Reals sum, const void* target, Reals loss, double* total, std::int64_t rows) {
  if (sum.type != loss.type) throw std::logic_error("a loss is stored as the sums it is made of");
  with_real(sum.type, [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_same_v<T, Acc<T>>)
      launch(&loss_kernel<T>, dim3(1), dim3(1024), 0, stream, in<T>(sum), static_cast<const T*>(target), out<T>(loss),
             total, rows);
    else
      throw std::logic_error("a loss in 16 bits");
  });
}

void xent_grad(cudaStream_t stream, Reals from, const std::int64_t* labels, Reals to, const void* max, const void* sums,
               const Logits& z, double tokens) {
  with_real(to.type, [&](auto t) {
    using T = decltype(t);
    by_columns<T>(z, [&](auto v) {
      launch(&grad_kernel<decltype(v)::value, T>, grid_of(z.rows), dim3(kRowThreads), 0, stream, in<T>(from), labels,
             out<T>(to), static_cast<const Acc<T>*>(max), static_cast<const Acc<T>*>(sums), z, tokens);
    });
  });
}

}  // namespace rehearse::cuda
