#pragma once
// The mixer of Mamba-2 as the plain recurrence, token by token: what both ways share. It is not the products over
// chunks of the paper's kernels, which prices are of: what is measured here says nothing about those.

#include "gpu_backend/cuda/kernels/numbers.cuh"
#include "gpu_backend/cuda/kernels/state_space.hpp"

namespace rehearse::cuda {

template <class A>
__device__ inline A silu(A x) {
  return x * sigmoid(x);
}
template <class A>
__device__ inline A silu_slope(A x) {
  const A s = sigmoid(x);
  return s * (A(1) + x * (A(1) - s));
}
/// log(1 + e^x), of which large x leave x.
template <class A>
__device__ inline A softplus(A x) {
  return Max::of(x, A(0)) + log1p(exp(x < A(0) ? x : -x));
}

/// What the recurrence reads, in scratch.
template <class A>
struct Mixed {
  A* channels;        ///< [rows, channels] past convolution and SiLU.
  A *steps, *decays;  ///< [rows, heads]
};
/// Divides scratch, or, without a place, counts its elements.
template <class A>
struct Divided {
  A* place;
  std::int64_t used = 0;
  A* take(std::int64_t n) {
    A* at = place == nullptr ? nullptr : place + used;
    used += n;
    return at;
  }
  Mixed<A> take_mixed(const StateSpaceShape& z) {
    A *channels = take(z.rows() * z.channels()), *steps = take(z.rows() * z.heads);
    return {channels, steps, take(z.rows() * z.heads)};
  }
};

// ---- convolution and steps

/// One channel of b, c or x, wherever it is stored.
struct Channel {
  Reals of;
  std::int64_t width, at;
  __device__ Channel(const StateSpaceTensors& t, const StateSpaceShape& z, std::int64_t channel)
      : of(t.x), width(z.inner()), at(channel) {
    if (at < z.inner()) return;
    at -= z.inner(), width = z.shared(), of = t.b;
    if (at < z.shared()) return;
    at -= z.shared(), of = t.c;
  }
  [[nodiscard]] __device__ std::int64_t element(std::int64_t row) const { return row * width + at; }
};

/// Of a row, before SiLU.
template <class A>
__device__ inline A convolved(const StateSpaceTensors& in, const StateSpaceShape& z, std::int64_t row,
                              std::int64_t channel) {
  const Channel from(in, z, channel);
  const std::int64_t t = row % z.tokens;
  A sum = get<A>(in.bias, channel);
  for (std::int64_t i = t < z.window - 1 ? z.window - 1 - t : 0; i < z.window; ++i)
    sum += get<A>(in.weight, channel * z.window + i) * get<A>(from.of, from.element(row - z.window + 1 + i));
  return sum;
}
template <class A>
struct Mix {
  StateSpaceTensors in;
  StateSpaceShape z;
  A* mixed;
  template <int>
  __device__ void at(std::int64_t i) const {
    mixed[i] = silu(convolved<A>(in, z, i / z.channels(), i % z.channels()));
  }
};
template <class A>
struct Steps {
  StateSpaceTensors in;
  StateSpaceShape z;
  A *steps, *decays;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t head = i % z.heads;
    const A step = softplus(get<A>(in.dt, i) + get<A>(in.dt_bias, head));
    steps[i] = step;
    decays[i] = exp(-exp(get<A>(in.a_log, head)) * step);
  }
};

/// Both, for all rows. Throws as state_space().
template <class A>
void mix(cudaStream_t stream, const StateSpaceTensors& in, const StateSpaceShape& z, const Mixed<A>& s) {
  if (z.state > kMostState)
    throw Error(ErrorKind::unavailable, "states of more than " + std::to_string(kMostState), "cuda");
  each_one(stream, Mix<A>{in, z, s.channels}, z.rows() * z.channels());
  each_one(stream, Steps<A>{in, z, s.steps, s.decays}, z.rows() * z.heads);
}

// ---- recurrence

/// One head of one sample.
template <class A>
struct Head {
  const A *x, *b, *c, *steps, *decays;  ///< Of the sample's first token.
  std::int64_t channels, heads, state;
  __device__ Head(const Mixed<A>& s, const StateSpaceShape& z, std::int64_t sample, std::int64_t head)
      : channels(z.channels()), heads(z.heads), state(z.state) {
    const A* first = s.channels + sample * z.tokens * channels;
    x = first + head * z.head_dim;
    b = first + z.inner() + z.group(head) * state;
    c = b + z.shared();
    steps = s.steps + sample * z.tokens * heads + head;
    decays = s.decays + sample * z.tokens * heads + head;
  }
};

// Elements of a row of the state that a lane keeps.
inline constexpr int kPerLane = static_cast<int>(kMostState) / kWarp;

/// A row of a head's state, one element in 32 per lane. Each lane reads and writes the same elements every time.
template <class A>
struct Row {
  A at[kPerLane];
  __device__ static std::int64_t column(int i) { return static_cast<std::int64_t>(threadIdx.x) % kWarp + i * kWarp; }
  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) at[i] = A(0);
  }
  __device__ void load(const A* from, std::int64_t width) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) at[i] = column(i) < width ? from[column(i)] : A(0);
  }
  __device__ void store(A* to, std::int64_t width) const {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      if (column(i) < width) to[column(i)] = at[i];
  }
  /// Sum over the row of products with `other`, in every lane.
  __device__ A times(const A* other, std::int64_t width) const {
    A sum{0};
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      if (column(i) < width) sum += at[i] * other[column(i)];
    return over_warp<Sum>(sum);
  }
};

/// Row p of the state through tokens [first, last); after(t) once each has been taken in.
template <class A, class F>
__device__ inline void advance(const Head<A>& h, std::int64_t p, Row<A>& row, std::int64_t first, std::int64_t last,
                               F after) {
  for (std::int64_t t = first; t < last; ++t) {
    const A keeps = h.decays[t * h.heads], adds = h.steps[t * h.heads] * h.x[t * h.channels + p];
    const A* b = h.b + t * h.channels;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      if (Row<A>::column(i) < h.state) row.at[i] = keeps * row.at[i] + adds * b[Row<A>::column(i)];
    after(t);
  }
}

}  // namespace rehearse::cuda
