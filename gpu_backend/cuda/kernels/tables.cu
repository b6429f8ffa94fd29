// Word and position tables, rotary embedding. Gradients of tables are added token by token in the tokens' order,
// without atomics.

#include "gpu_backend/cuda/kernels/common.cuh"

namespace rehearse::cuda {

namespace {

__device__ std::int64_t row_of(const TableShape& z, std::int64_t token) {
  const std::int64_t row = token - z.first_row;
  return row >= 0 && row < z.rows ? row : -1;
}

template <class T>
__global__ void embedding_kernel(const std::int64_t* tokens, const T* table, T* to, TableShape z) {
  for (std::int64_t t = blockIdx.x; t < z.tokens; t += gridDim.x) {
    const std::int64_t row = row_of(z, tokens[t]);
    for (std::int64_t i = threadIdx.x; i < z.width; i += blockDim.x)
      to[t * z.width + i] = row < 0 ? narrow<T>(0) : table[row * z.width + i];
  }
}

/// A block per token. The first token of a kind adds up all of its kind, in order; the blocks of the others end.
template <class T, class G>
__global__ void embedding_grad_kernel(const std::int64_t* tokens, const T* dy, G* table, TableShape z) {
  __shared__ unsigned matches[kThreads / kWarp];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (std::int64_t t = blockIdx.x; t < z.tokens; t += gridDim.x) {
    const std::int64_t mine = tokens[t], row = row_of(z, mine);
    int seen = 0;
    for (std::int64_t j = threadIdx.x; j < t && row >= 0; j += blockDim.x) seen |= tokens[j] == mine ? 1 : 0;
    if (__syncthreads_or(seen) != 0 || row < 0) continue;
    for (std::int64_t columns = 0; columns < z.width; columns += kThreads) {
      const std::int64_t c = columns + threadIdx.x;
      Acc<G> sum = c < z.width ? widen(table[row * z.width + c]) : Acc<G>(0);
      for (std::int64_t from = t - t % kThreads; from < z.tokens; from += kThreads) {
        const std::int64_t j = from + threadIdx.x;
        const unsigned found = __ballot_sync(0xffffffffu, j >= t && j < z.tokens && tokens[j] == mine);
        __syncthreads();  // Whoever still reads the last matches.
        if (threadIdx.x % kWarp == 0) matches[warp] = found;
        __syncthreads();
        for (int w = 0; w < static_cast<int>(kThreads) / kWarp; ++w)
          for (unsigned bits = matches[w]; bits != 0; bits &= bits - 1)
            if (c < z.width)
              sum +=
                  static_cast<Acc<G>>(widen(dy[(from + w * kWarp + __ffs(static_cast<int>(bits)) - 1) * z.width + c]));
      }
      if (c < z.width) table[row * z.width + c] = narrow<G>(sum);
    }
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

/// A block per token: angles in fp64 once, for all heads.
template <class T>
__global__ void rope_kernel(const T* x, T* y, RopeShape z, int direction) {
  using A = Acc<T>;
  const std::int64_t half = z.turning / 2, beyond = z.width - z.turning;
  for (std::int64_t t = blockIdx.x; t < z.batch * z.sequence; t += gridDim.x) {
    const auto position = static_cast<double>(z.positions.at(t % z.sequence));
    const T* from = x + t * z.heads * z.width;
    T* to = y + t * z.heads * z.width;
    for (std::int64_t i = threadIdx.x; i < half; i += blockDim.x) {
      const double angle =
          direction * position * pow(z.base, -2.0 * static_cast<double>(i) / static_cast<double>(z.turning));
      const A cosine = static_cast<A>(cos(angle)), sine = static_cast<A>(sin(angle));
      for (std::int64_t h = 0; h < z.heads; ++h) {
        const std::int64_t at = h * z.width + i;
        const A a = widen(from[at]), b = widen(from[at + half]);
        to[at] = narrow<T>(a * cosine - b * sine);
        to[at + half] = narrow<T>(a * sine + b * cosine);
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

void embedding_grad(cudaStream_t stream, const std::int64_t* tokens, Reals dy, Reals table, const TableShape& z) {
  with_sum(dy.type, table.type, [&](auto t, auto g) {
    using T = decltype(t);
    using G = decltype(g);
    launch(&embedding_grad_kernel<T, G>, dim3(blocks_for(z.tokens)), dim3(kThreads), 0, stream, tokens, in<T>(dy),
           out<G>(table), z);
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
    launch(&rope_kernel<T>, dim3(blocks_for(z.batch * z.sequence)), dim3(64), 0, stream, in<T>(x), out<T>(y), z,
           direction);
  });
}

}  // namespace rehearse::cuda
