// Word and position tables, rotary embedding.

#include "gpu_backend/cuda/kernels/table_rows.cuh"

namespace rehearse::cuda {

namespace {

template <class T>
__global__ void embedding_kernel(const std::int64_t* tokens, const T* table, T* to, TableShape z) {
  for (std::int64_t t = blockIdx.x; t < z.tokens; t += gridDim.x) {
    const std::int64_t row = row_of(z, tokens[t]);
    for (std::int64_t i = threadIdx.x; i < z.width; i += blockDim.x)
      to[t * z.width + i] = row < 0 ? narrow<T>(0) : table[row * z.width + i];
  }
}

template <class T>
__global__ void add_position_kernel(const T* x, const T* table, T* y, PositionShape z) {
  for (std::int64_t t = blockIdx.x; t < z.batch * z.sequence; t += gridDim.x) {
    const T* row = table + z.positions.at(t % z.sequence) * z.width;
    for (std::int64_t i = threadIdx.x; i < z.width; i += blockDim.x)
      y[t * z.width + i] = narrow<T>(widen(x[t * z.width + i]) + widen(row[i]));
  }
}

template <class T, class G>
__global__ void position_grad_kernel(const T* dy, G* table, PositionShape z) {
  for (std::int64_t s = blockIdx.x; s < z.sequence; s += gridDim.x) {
    G* row = table + z.positions.at(s) * z.width;
    for (std::int64_t i = threadIdx.x; i < z.width; i += blockDim.x) {
      Acc<G> sum = widen(row[i]);
      for (std::int64_t b = 0; b < z.batch; ++b)
        sum += static_cast<Acc<G>>(widen(dy[(b * z.sequence + s) * z.width + i]));
      row[i] = narrow<G>(sum);
    }
  }
}

constexpr int kAngles = 128;      // Of a token at once.
constexpr int kTurnedAtOnce = 4;  // Pairs that a thread turns, where rows are made of them.

/// A block per token: angles in fp64 once, for all heads.
template <int V, class T>
__global__ void rope_kernel(const T* x, T* y, RopeShape z, int direction) {
  using A = Acc<T>;
  __shared__ A cosine[kAngles], sine[kAngles];
  const std::int64_t half = z.turning / 2, beyond = z.width - z.turning;
  for (std::int64_t t = blockIdx.x; t < z.batch * z.sequence; t += gridDim.x) {
    const auto position = static_cast<double>(z.positions.at(t % z.sequence));
    const T* from = x + t * z.from_apart;
    T* to = y + t * z.to_apart;
    for (std::int64_t base = 0; base < half; base += kAngles) {
      const int count = static_cast<int>(half - base < kAngles ? half - base : kAngles);
      __syncthreads();  // Whoever still turns by the last angles.
      for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
        const double angle =
            direction * position * pow(z.base, -2.0 * static_cast<double>(base + i) / static_cast<double>(z.turning));
        cosine[i] = static_cast<A>(cos(angle)), sine[i] = static_cast<A>(sin(angle));
      }
      __syncthreads();
      const int groups = count / V, all = static_cast<int>(z.heads) * groups;
      for (int e = static_cast<int>(threadIdx.x); e < all; e += static_cast<int>(blockDim.x)) {
        const int i = e % groups * V;
        const std::int64_t at = e / groups * z.width + base + i;
        auto a = read<V>(from, at), b = read<V>(from, at + half);
#pragma unroll
        for (int j = 0; j < V; ++j) {
          const A first = a.at[j], second = b.at[j];
          a.at[j] = first * cosine[i + j] - second * sine[i + j];
          b.at[j] = first * sine[i + j] + second * cosine[i + j];
        }
        write<V>(to, at, a);
        write<V>(to, at + half, b);
      }
    }
    for (std::int64_t i = threadIdx.x; i < beyond * z.heads; i += blockDim.x) {
      const std::int64_t at = i / beyond * z.width + z.turning + i % beyond;
      to[at] = from[at];
    }
  }
}

}  // namespace

void embedding(cudaStream_t stream, const std::int64_t* tokens, Reals table, Reals to, const TableShape& z) {
  with_real(table.type, [&](auto t) {
    using T = decltype(t);
    launch(&embedding_kernel<T>, dim3(blocks_for(z.tokens)), dim3(kThreads), 0, stream, tokens, in<T>(table),
           out<T>(to), z);
  });
}

void add_position(cudaStream_t stream, Reals x, Reals table, Reals y, const PositionShape& z) {
  with_real(y.type, [&](auto t) {
    using T = decltype(t);
    launch(&add_position_kernel<T>, dim3(blocks_for(z.batch * z.sequence)), dim3(kThreads), 0, stream, in<T>(x),
           in<T>(table), out<T>(y), z);
  });
}

void position_grad(cudaStream_t stream, Reals dy, Reals table, const PositionShape& z) {
  with_sum(dy.type, table.type, [&](auto t, auto g) {
    using T = decltype(t);
    using G = decltype(g);
    launch(&position_grad_kernel<T, G>, dim3(blocks_for(z.sequence)), dim3(kThreads), 0, stream, in<T>(dy),
           out<G>(table), z);
  });
}

void rope(cudaStream_t stream, Reals x, Reals y, const RopeShape& z, int direction) {
  with_real(x.type, [&](auto t) {
    using T = decltype(t);
    const auto start = [&](auto kernel) {
      launch(kernel, dim3(blocks_for(z.batch * z.sequence)), dim3(kThreads), 0, stream, in<T>(x), out<T>(y), z,
             direction);
    };
    if (z.turning / 2 % kTurnedAtOnce == 0 && z.width % kTurnedAtOnce == 0 && z.from_apart % kTurnedAtOnce == 0 &&
        z.to_apart % kTurnedAtOnce == 0)
      start(&rope_kernel<kTurnedAtOnce, T>);
    else
      start(&rope_kernel<1, T>);
  });
}

}  // namespace rehearse::cuda
