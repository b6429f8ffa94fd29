// Experts: a warp per token chooses, a block per row or token moves rows.

#include <limits>

#include "gpu_backend/cuda/kernels/experts.hpp"
#include "gpu_backend/cuda/kernels/numbers.cuh"

namespace rehearse::cuda {

namespace {

/// A block is a warp, which works on one token at a time.
template <class A>
struct Token {
  A p[kMostExperts];     ///< Probabilities.
  A open[kMostExperts];  ///< Those that may still be chosen; the others are below 0. Backward: gradients of p.
};

__device__ int lane() { return static_cast<int>(threadIdx.x); }

/// p from scores; the log-sum-exp of scores where by softmax, else 0.
template <class A>
__device__ A probabilities(const Reals& scores, std::int64_t first, std::int64_t n, bool by_sigmoid, A* p) {
  if (by_sigmoid) {
    for (std::int64_t e = lane(); e < n; e += kWarp) p[e] = sigmoid(get<A>(scores, first + e));
    __syncwarp();
    return A(0);
  }
  A max = -std::numeric_limits<A>::infinity(), sum{0};
  for (std::int64_t e = lane(); e < n; e += kWarp) max = Max::of(max, get<A>(scores, first + e));
  max = over_warp<Max>(max);
  for (std::int64_t e = lane(); e < n; e += kWarp) sum += p[e] = exp(get<A>(scores, first + e) - max);
  sum = over_warp<Sum>(sum);
  for (std::int64_t e = lane(); e < n; e += kWarp) p[e] /= sum;
  __syncwarp();
  return max + log(sum);
}

/// Number of the largest of n values, the first of equals; 0 where none is larger than minus infinity (all are NaN).
template <class A>
__device__ std::int64_t largest(const A* values, std::int64_t n) {
  A best = -std::numeric_limits<A>::infinity();
  std::int64_t at = n;
  for (std::int64_t e = lane(); e < n; e += kWarp)
    if (values[e] > best) best = values[e], at = e;
  for (int o = kWarp / 2; o > 0; o /= 2) {
    const A other = __shfl_xor_sync(0xffffffffu, best, o);
    const std::int64_t there = __shfl_xor_sync(0xffffffffu, at, o);
    if (other > best || (other == best && there < at)) best = other, at = there;
  }
  return at < n ? at : 0;
}

/// Takes experts outside a token's groups out. A group is worth its two best experts (DeepSeek-AI 2024b, sec. 2.1.2).
template <class A>
__device__ void limit_groups(Token<A>& t, const Routing& r) {
  const std::int64_t size = r.experts / r.groups;
  __shared__ A worth[kMostExperts];
  for (std::int64_t g = lane(); g < r.groups; g += kWarp) {
    A first = -std::numeric_limits<A>::infinity(), second = first;
    for (std::int64_t e = g * size; e < (g + 1) * size; ++e) {
      if (t.p[e] > first)
        second = first, first = t.p[e];
      else if (t.p[e] > second)
        second = t.p[e];
    }
    worth[g] = size > 1 ? first + second : first;
  }
  for (std::int64_t e = lane(); e < r.experts; e += kWarp) t.open[e] = A(-1);
  __syncwarp();
  for (std::int64_t i = 0; i < r.limit; ++i) {
    const std::int64_t g = largest(worth, r.groups);
    __syncwarp();
    if (lane() == 0) worth[g] = -std::numeric_limits<A>::infinity();
    for (std::int64_t e = g * size + lane(); e < (g + 1) * size; e += kWarp) t.open[e] = t.p[e];
    __syncwarp();
  }
}

template <class A>
__global__ void route_kernel(Reals scores, Reals weights, std::int64_t* choice, Routing r) {
  __shared__ Token<A> t;
  for (std::int64_t token = blockIdx.x; token < r.tokens; token += gridDim.x) {
    __syncwarp();
    (void)probabilities(scores, token * r.experts, r.experts, r.by_sigmoid, t.p);
    if (r.limit < r.groups) {
      limit_groups(t, r);
    } else {
      for (std::int64_t e = lane(); e < r.experts; e += kWarp) t.open[e] = t.p[e];
    }
    __syncwarp();
    A sum{0};
    for (std::int64_t i = 0; i < r.k; ++i) {
      const std::int64_t e = largest(t.open, r.experts);
      sum += t.p[e];
      __syncwarp();
      if (lane() == 0) {
        t.open[e] = A(-2);
        choice[token * r.k + i] = e;
      }
      __syncwarp();
    }
    if (lane() != 0) continue;
    for (std::int64_t i = 0; i < r.k; ++i)
      put(weights, token * r.k + i,
          static_cast<A>(r.scale) * t.p[choice[token * r.k + i]] / (r.normalises ? sum : A(1)));
  }
}

template <class A>
__global__ void route_grad_kernel(Reals dweights, Reals scores, const std::int64_t* choice, Reals dscores, Reals load,
                                  Routing r) {
  __shared__ Token<A> t;
  for (std::int64_t token = blockIdx.x; token < r.tokens; token += gridDim.x) {
    const std::int64_t first = token * r.experts;
    const std::int64_t* chosen = choice + token * r.k;
    __syncwarp();
    A log_sum = probabilities(scores, first, r.experts, r.by_sigmoid, t.p);
    A* dp = t.open;
    for (std::int64_t e = lane(); e < r.experts; e += kWarp) dp[e] = A(0);
    __syncwarp();
    if (lane() == 0) {
      A sum{0}, along{0};
      for (std::int64_t i = 0; i < r.k; ++i) {
        sum += t.p[chosen[i]];
        along += get<A>(dweights, token * r.k + i) * t.p[chosen[i]];
      }
      const A scale = static_cast<A>(r.scale);
      for (std::int64_t i = 0; i < r.k; ++i) {
        const A g = get<A>(dweights, token * r.k + i);
        dp[chosen[i]] += r.normalises ? scale * (g - along / sum) / sum : scale * g;
      }
    }
    __syncwarp();
    // aux E sum_e f_e P_e, P_e the mean of normalised probabilities (Fedus et al. 2021, eq. 4)
    if (load.data != nullptr) {
      A total{0}, along{0};
      for (std::int64_t e = lane(); e < r.experts; e += kWarp) total += t.p[e];
      total = over_warp<Sum>(total);
      for (std::int64_t e = lane(); e < r.experts; e += kWarp) along += get<A>(load, e) * t.p[e] / total;
      along = over_warp<Sum>(along);
      const A factor = static_cast<A>(r.aux * static_cast<double>(r.experts) / r.tokens_in_loss);
      for (std::int64_t e = lane(); e < r.experts; e += kWarp) dp[e] += factor * (get<A>(load, e) - along) / total;
    }
    A along{0};
    for (std::int64_t e = lane(); e < r.experts; e += kWarp) along += dp[e] * t.p[e];
    along = over_warp<Sum>(along);
    for (std::int64_t e = lane(); e < r.experts; e += kWarp)
      dp[e] = r.by_sigmoid ? dp[e] * t.p[e] * (A(1) - t.p[e]) : t.p[e] * (dp[e] - along);
    __syncwarp();
    if (r.z > 0) {  // z times the mean squared log-sum-exp (Zoph et al. 2022, eq. 5)
      if (r.by_sigmoid) log_sum = probabilities(scores, first, r.experts, false, t.p);
      const A factor = static_cast<A>(2 * r.z / r.tokens_in_loss) * log_sum;
      for (std::int64_t e = lane(); e < r.experts; e += kWarp) dp[e] += factor * t.p[e];
    }
    for (std::int64_t e = lane(); e < r.experts; e += kWarp) put(dscores, first + e, dp[e]);
  }
}

template <class A>
__global__ void to_rows_kernel(Reals tokens, Reals to, const std::int64_t* rows, TokenRows z, Reals numbers,
                               Reals numbers_to) {
  for (std::int64_t i = blockIdx.x; i < z.tokens * z.k; i += gridDim.x) {
    if (rows[i] < 0) continue;
    for (std::int64_t j = threadIdx.x; j < z.width; j += blockDim.x)
      put(to, rows[i] * z.width + j, get<A>(tokens, i / z.k * z.width + j));
    if (threadIdx.x == 0 && numbers.data != nullptr) put(numbers_to, rows[i], get<A>(numbers, i));
  }
}
template <class A>
__global__ void to_tokens_kernel(Reals from, Reals tokens, const std::int64_t* rows, TokenRows z, Reals numbers,
                                 Reals numbers_to) {
  for (std::int64_t t = blockIdx.x; t < z.tokens; t += gridDim.x) {
    for (std::int64_t j = threadIdx.x; j < z.width; j += blockDim.x) {
      A sum{0};
      for (std::int64_t i = t * z.k; i < (t + 1) * z.k; ++i)
        if (rows[i] >= 0) sum += get<A>(from, rows[i] * z.width + j);
      put(tokens, t * z.width + j, sum);
    }
    if (numbers.data == nullptr) continue;
    for (std::int64_t i = t * z.k + threadIdx.x; i < (t + 1) * z.k; i += blockDim.x)
      put(numbers_to, i, rows[i] < 0 ? A(0) : get<A>(numbers, rows[i]));
  }
}

template <class A>
struct WeightedSiluMul {
  Reals gate, up, weights, y;
  std::int64_t width;
  template <int>
  __device__ void at(std::int64_t i) const {
    const A g = get<A>(gate, i);
    put(y, i, get<A>(weights, i / width) * g * sigmoid(g) * get<A>(up, i));
  }
};
template <class A>
__global__ void weighted_grad_kernel(Reals dy, Reals gate, Reals up, Reals weights, Reals dgate, Reals dup,
                                     Reals dweights, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const A w = get<A>(weights, r);
    A sum{0};
    for (std::int64_t i = r * width + threadIdx.x; i < (r + 1) * width; i += blockDim.x) {
      const A g = get<A>(gate, i), s = sigmoid(g), u = get<A>(up, i), d = get<A>(dy, i);
      put(dgate, i, d * w * u * s * (A(1) + g * (A(1) - s)));
      put(dup, i, d * w * g * s);
      sum += d * g * s * u;
    }
    sum = over_block<Sum>(sum, A(0));
    if (threadIdx.x == 0) put(dweights, r, sum);
  }
}

template <class A>
struct WeightedSquaredRelu {
  Reals x, weights, y;
  std::int64_t width;
  template <int>
  __device__ void at(std::int64_t i) const {
    const A above = Max::of(get<A>(x, i), A(0));
    put(y, i, get<A>(weights, i / width) * above * above);
  }
};
template <class A>
__global__ void weighted_squared_relu_grad_kernel(Reals dy, Reals x, Reals weights, Reals dx, Reals dweights,
                                                  std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const A w = get<A>(weights, r);
    A sum{0};
    for (std::int64_t i = r * width + threadIdx.x; i < (r + 1) * width; i += blockDim.x) {
      const A above = Max::of(get<A>(x, i), A(0)), d = get<A>(dy, i);
      put(dx, i, d * w * A(2) * above);
      sum += d * above * above;
    }
    sum = over_block<Sum>(sum, A(0));
    if (threadIdx.x == 0) put(dweights, r, sum);
  }
}

template <class A>
struct Append {
  Reals x, vector, y;
  Appended z;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t wide = z.d + z.e, row = i / wide, j = i % wide;
    put(y, i, j < z.d ? get<A>(x, row * z.d + j) : get<A>(vector, row / z.heads * z.e + j - z.d));
  }
};
/// The vector's gradient is summed over heads by the first.
template <class A>
struct AppendGrad {
  Reals dy, dx, dvector;
  Appended z;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t wide = z.d + z.e, row = i / wide, j = i % wide;
    if (j < z.d) return put(dx, row * z.d + j, get<A>(dy, i));
    if (row % z.heads != 0) return;
    A sum{0};
    for (std::int64_t h = 0; h < z.heads; ++h) sum += get<A>(dy, i + h * wide);
    put(dvector, row / z.heads * z.e + j - z.d, sum);
  }
};

void check_experts(const Routing& r) {
  if (r.experts > kMostExperts)
    throw Error(ErrorKind::unavailable, "more than " + std::to_string(kMostExperts) + " experts", "cuda");
}

}  // namespace

void route(cudaStream_t stream, Reals scores, Reals weights, std::int64_t* choice, const Routing& r) {
  check_experts(r);
  with_sums_of(scores.type, [&](auto a) {
    launch(&route_kernel<decltype(a)>, dim3(blocks_for(r.tokens)), dim3(kWarp), 0, stream, scores, weights, choice, r);
  });
}
void route_grad(cudaStream_t stream, Reals dweights, Reals scores, const std::int64_t* choice, Reals dscores,
                const void* load, ElementType load_type, const Routing& r) {
  check_experts(r);
  const Reals shares{const_cast<void*>(load), load_type};
  with_sums_of(scores.type, [&](auto a) {
    launch(&route_grad_kernel<decltype(a)>, dim3(blocks_for(r.tokens)), dim3(kWarp), 0, stream, dweights, scores,
           choice, dscores, shares, r);
  });
}

void tokens_to_rows(cudaStream_t stream, Reals tokens, Reals to, const std::int64_t* rows, const TokenRows& z,
                    Reals numbers, Reals numbers_to) {
  with_sums_of(to.type, [&](auto a) {
    launch(&to_rows_kernel<decltype(a)>, dim3(blocks_for(z.tokens * z.k)), dim3(kThreads), 0, stream, tokens, to, rows,
           z, numbers, numbers_to);
  });
}
void rows_to_tokens(cudaStream_t stream, Reals from, Reals tokens, const std::int64_t* rows, const TokenRows& z,
                    Reals numbers, Reals numbers_to) {
  with_sums_of(from.type, [&](auto a) {
    launch(&to_tokens_kernel<decltype(a)>, dim3(blocks_for(z.tokens)), dim3(kThreads), 0, stream, from, tokens, rows, z,
           numbers, numbers_to);
  });
}

void weighted_silu_mul(cudaStream_t stream, Reals gate, Reals up, Reals weights, Reals y, std::int64_t rows,
                       std::int64_t width) {
  with_sums_of(gate.type, [&](auto a) {
    each_one(stream, WeightedSiluMul<decltype(a)>{gate, up, weights, y, width}, rows * width);
  });
}
void weighted_silu_mul_grad(cudaStream_t stream, Reals dy, Reals gate, Reals up, Reals weights, Reals dgate, Reals dup,
                            Reals dweights, std::int64_t rows, std::int64_t width) {
  with_sums_of(gate.type, [&](auto a) {
    launch(&weighted_grad_kernel<decltype(a)>, dim3(blocks_for(rows)), dim3(kThreads), 0, stream, dy, gate, up, weights,
           dgate, dup, dweights, rows, width);
  });
}

void weighted_squared_relu(cudaStream_t stream, Reals x, Reals weights, Reals y, std::int64_t rows,
                           std::int64_t width) {
  with_sums_of(x.type, [&](auto a) {
    each_one(stream, WeightedSquaredRelu<decltype(a)>{x, weights, y, width}, rows * width);
  });
}
void weighted_squared_relu_grad(cudaStream_t stream, Reals dy, Reals x, Reals weights, Reals dx, Reals dweights,
                                std::int64_t rows, std::int64_t width) {
  with_sums_of(x.type, [&](auto a) {
    launch(&weighted_squared_relu_grad_kernel<decltype(a)>, dim3(blocks_for(rows)), dim3(kThreads), 0, stream, dy, x,
           weights, dx, dweights, rows, width);
  });
}

void append(cudaStream_t stream, Reals x, Reals vector, Reals y, const Appended& z) {
  with_sums_of(y.type, [&](auto a) {
    each_one(stream, Append<decltype(a)>{x, vector, y, z}, z.tokens * z.heads * (z.d + z.e));
  });
}
void append_grad(cudaStream_t stream, Reals dy, Reals dx, Reals dvector, const Appended& z) {
  with_sums_of(dy.type, [&](auto a) {
    each_one(stream, AppendGrad<decltype(a)>{dy, dx, dvector, z}, z.tokens * z.heads * (z.d + z.e));
  });
}

}  // namespace rehearse::cuda
