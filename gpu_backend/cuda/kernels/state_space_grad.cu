// The mixer of Mamba-2, backward: a block per head of a sample, then the convolution. Nothing is kept from forward:
// states are made again.

#include "gpu_backend/cuda/kernels/state_space.cuh"

namespace rehearse::cuda {

namespace {

constexpr std::int64_t kMostUnits = 128;   // At work at a time: each takes memory for the states of its chunk.
constexpr std::int64_t kRowsPerPart = 64;  // Tokens that one thread sums a weight's gradient over.

/// Blocks go through units of (sample, group, lane): a lane has every lanes-th head of the group, so that sums over
/// heads are few.
struct Units {
  std::int64_t lanes, count, at_once;
  explicit Units(const StateSpaceShape& z) {
    const std::int64_t groups = z.batch * z.groups, heads = (z.heads + z.groups - 1) / z.groups,
                       fit = kMostUnits / (groups < 1 ? 1 : groups);
    lanes = fit < 1 ? 1 : fit < heads ? fit : heads;
    count = groups * lanes;
    at_once = count < kMostUnits ? count : kMostUnits;
  }
};
[[nodiscard]] constexpr std::int64_t chunks_of(const StateSpaceShape& z) { return (z.tokens + z.chunk - 1) / z.chunk; }
[[nodiscard]] constexpr std::int64_t parts_of(const StateSpaceShape& z) {
  return (z.rows() + kRowsPerPart - 1) / kRowsPerPart;
}
/// Of one unit: states at the first token of each chunk, those inside one chunk, the gradient of the state, and that of
/// what the gate multiplies.
[[nodiscard]] constexpr std::int64_t unit_elements(const StateSpaceShape& z) {
  return (chunks_of(z) + (z.chunk + 1) + 1) * z.square() + z.head_dim;
}

template <class A>
struct Scratch {
  Mixed<A> mixed;
  A* dmixed;                  ///< As mixed.channels.
  A* shared;                  ///< [units, tokens, 2 state]: gradients of b and c.
  A* units;                   ///< unit_elements() of each at work.
  A *of_heads, *of_channels;  ///< Parts of weights' gradients: [batch, 3, heads]; [parts, window + 1, channels].
  Scratch(Divided<A>& from, const StateSpaceShape& z) : mixed(from.take_mixed(z)) {
    const Units u(z);
    dmixed = from.take(z.rows() * z.channels());
    shared = from.take(u.count * z.tokens * 2 * z.state);
    units = from.take(u.at_once * unit_elements(z));
    of_heads = from.take(z.batch * 3 * z.heads);
    of_channels = from.take(parts_of(z) * (z.window + 1) * z.channels());
  }
};

// ---- recurrence

/// Backward of one head of one sample, by one block. Warps share the rows of the state out, always alike.
template <class A>
struct Backward {
  StateSpaceTensors in, out;
  Reals dy;
  StateSpaceShape z;
  Scratch<A> s;
  A *starts, *inside, *dh, *flows;   ///< This block's own.
  A by_exponent, by_d, by_raw_step;  ///< This thread's part of sums over tokens.

  __device__ Backward(const StateSpaceTensors& read, const StateSpaceTensors& written, const Reals& grad,
                      const StateSpaceShape& shape, const Scratch<A>& scratch)
      : in(read), out(written), dy(grad), z(shape), s(scratch) {
    starts = s.units + blockIdx.x * unit_elements(z);
    inside = starts + chunks_of(z) * z.square();
    dh = inside + (z.chunk + 1) * z.square();
    flows = dh + z.square();
  }
  template <class F>
  __device__ void each_row(F f) const {
    for (std::int64_t p = threadIdx.x / kWarp; p < z.head_dim; p += blockDim.x / kWarp) f(p);
  }

  /// `shared`: this unit's sums of the gradients of b and c, [tokens, 2 state].
  __device__ void run(std::int64_t sample, std::int64_t head, A* shared) {
    const Head<A> h(s.mixed, z, sample, head);
    by_exponent = by_d = by_raw_step = A(0);
    keep_starts(h);
    for (std::int64_t chunk = chunks_of(z) - 1; chunk >= 0; --chunk) {
      const std::int64_t first = chunk * z.chunk, last = first + z.chunk < z.tokens ? first + z.chunk : z.tokens;
      make_inside(h, chunk, first, last);
      for (std::int64_t t = last - 1; t >= first; --t) {
        const A* before = inside + (t - first) * z.square();
        const A by_step = rows_of_token(h, sample, head, t, before);
        __syncthreads();
        columns_of_token(h, t, before + z.square(), shared + t * 2 * z.state);
        step_of_token(sample, head, t, by_step);
      }
    }
    weights(sample, head);
  }

  __device__ void keep_starts(const Head<A>& h) const {
    each_row([&](std::int64_t p) {
      Row<A> row;
      row.clear();
      row.store(starts + p * z.state, z.state);
      row.store(dh + p * z.state, z.state);
      advance(h, p, row, 0, z.tokens, [&](std::int64_t t) {
        if ((t + 1) % z.chunk == 0 && t + 1 < z.tokens)
          row.store(starts + (t + 1) / z.chunk * z.square() + p * z.state, z.state);
      });
    });
  }
  __device__ void make_inside(const Head<A>& h, std::int64_t chunk, std::int64_t first, std::int64_t last) const {
    each_row([&](std::int64_t p) {
      Row<A> row;
      row.load(starts + chunk * z.square() + p * z.state, z.state);
      row.store(inside + p * z.state, z.state);
      advance(h, p, row, first, last,
              [&](std::int64_t t) { row.store(inside + (t - first + 1) * z.square() + p * z.state, z.state); });
    });
  }

  /// Gradients of the gate, of x and of the state, row by row. Returns this lane's part of the step's: by what it lets
  /// in and by what it lets decay.
  __device__ A rows_of_token(const Head<A>& h, std::int64_t sample, std::int64_t head, std::int64_t t,
                             const A* before) {
    const A *after = before + z.square(), *b = h.b + t * h.channels, *c = h.c + t * h.channels,
            *x = h.x + t * h.channels;
    const A step = h.steps[t * z.heads], decay = h.decays[t * z.heads],
            later = t + 1 < z.tokens ? h.decays[(t + 1) * z.heads] : A(0);
    const A d = get<A>(in.d, head), rate = exp(get<A>(in.a_log, head));
    const std::int64_t row_of_token = sample * z.tokens + t;
    A by_step{0}, by_decay{0};
    each_row([&](std::int64_t p) {
      const std::int64_t i = row_of_token * z.inner() + head * z.head_dim + p;
      const A gate = get<A>(in.z, i), grad = get<A>(dy, i), flow = grad * silu(gate);
      Row<A> g, old, now;
      g.load(dh + p * z.state, z.state);
      old.load(before + p * z.state, z.state);
      now.load(after + p * z.state, z.state);
#pragma unroll
      for (int j = 0; j < kPerLane; ++j) {
        if (Row<A>::column(j) < z.state) g.at[j] = later * g.at[j] + flow * c[Row<A>::column(j)];
        by_decay += g.at[j] * old.at[j];
      }
      g.store(dh + p * z.state, z.state);
      const A read = now.times(c, z.state), along = g.times(b, z.state);
      if (threadIdx.x % kWarp != 0) return;
      put(out.z, i, grad * (read + d * x[p]) * silu_slope(gate));
      s.dmixed[row_of_token * z.channels() + head * z.head_dim + p] = step * along + d * flow;
      flows[p] = flow;
      by_step += along * x[p];
      by_d += flow * x[p];
    });
    by_exponent -= by_decay * decay * step * rate;
    return by_step - by_decay * decay * rate;
  }
  /// Adds gradients of b and c, column by column.
  __device__ void columns_of_token(const Head<A>& h, std::int64_t t, const A* after, A* shared) const {
    const A *x = h.x + t * h.channels, step = h.steps[t * z.heads];
    for (std::int64_t j = threadIdx.x; j < 2 * z.state; j += blockDim.x) {
      A sum{0};
      if (j < z.state) {
        for (std::int64_t p = 0; p < z.head_dim; ++p) sum += dh[p * z.state + j] * x[p];
        sum *= step;
      } else {
        for (std::int64_t p = 0; p < z.head_dim; ++p) sum += after[p * z.state + j - z.state] * flows[p];
      }
      shared[j] += sum;
    }
  }
  /// All threads leave this together: the next token may write what columns were read of.
  __device__ void step_of_token(std::int64_t sample, std::int64_t head, std::int64_t t, A by_step) {
    const A sum = over_block<Sum>(by_step, A(0));
    if (threadIdx.x != 0) return;
    const std::int64_t i = (sample * z.tokens + t) * z.heads + head;
    const A raw = sum * sigmoid(get<A>(in.dt, i) + get<A>(in.dt_bias, head));
    put(out.dt, i, raw);
    by_raw_step += raw;
  }
  __device__ void weights(std::int64_t sample, std::int64_t head) {
    const A sums[3] = {over_block<Sum>(by_exponent, A(0)), over_block<Sum>(by_d, A(0)),
                       over_block<Sum>(by_raw_step, A(0))};
    if (threadIdx.x != 0) return;
    for (int i = 0; i < 3; ++i) s.of_heads[(sample * 3 + i) * z.heads + head] = sums[i];
  }
};

template <class A>
__global__ void backward_kernel(StateSpaceTensors in, StateSpaceTensors out, Reals dy, StateSpaceShape z, Scratch<A> s,
                                Units units) {
  Backward<A> work(in, out, dy, z, s);
  for (std::int64_t unit = blockIdx.x; unit < units.count; unit += gridDim.x) {
    const std::int64_t lane = unit % units.lanes, group = unit / units.lanes % z.groups,
                       sample = unit / units.lanes / z.groups;
    for (std::int64_t head = z.first_head(group) + lane; head < z.first_head(group + 1); head += units.lanes)
      work.run(sample, head, s.shared + unit * z.tokens * 2 * z.state);
  }
}

// ---- convolution

/// Gradients past SiLU to those before it; of b and c, sums over the units of their group.
template <class A>
struct Unmix {
  StateSpaceTensors in;
  StateSpaceShape z;
  Scratch<A> s;
  std::int64_t lanes;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t row = i / z.channels(), channel = i % z.channels();
    s.dmixed[i] = (channel < z.inner() ? s.dmixed[i] : of_group(row, channel - z.inner())) *
                  silu_slope(convolved<A>(in, z, row, channel));
  }
  __device__ A of_group(std::int64_t row, std::int64_t channel) const {
    const bool of_c = channel >= z.shared();
    if (of_c) channel -= z.shared();
    const std::int64_t first = (row / z.tokens * z.groups + channel / z.state) * lanes,
                       column = channel % z.state + (of_c ? z.state : 0);
    A sum{0};
    for (std::int64_t unit = first; unit < first + lanes; ++unit)
      sum += s.shared[(unit * z.tokens + row % z.tokens) * 2 * z.state + column];
    return sum;
  }
};
template <class A>
struct ConvolutionInputGrad {
  StateSpaceTensors in, out;
  StateSpaceShape z;
  const A* dmixed;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t row = i / z.channels(), channel = i % z.channels(), left = z.tokens - row % z.tokens;
    A sum{0};
    for (std::int64_t k = z.window > left ? z.window - left : 0; k < z.window; ++k)
      sum += get<A>(in.weight, channel * z.window + k) * dmixed[(row + z.window - 1 - k) * z.channels() + channel];
    const Channel to(out, z, channel);
    put(to.of, to.element(row), sum);
  }
};
/// Sums over a part of the rows; the last of window + 1 is the bias's.
template <class A>
struct ConvolutionWeightParts {
  StateSpaceTensors in;
  StateSpaceShape z;
  Scratch<A> s;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t channel = i % z.channels(), k = i / z.channels() % (z.window + 1),
                       first = i / z.channels() / (z.window + 1) * kRowsPerPart;
    const Channel from(in, z, channel);
    A sum{0};
    for (std::int64_t row = first; row < first + kRowsPerPart && row < z.rows(); ++row) {
      const A g = s.dmixed[row * z.channels() + channel];
      if (k == z.window)
        sum += g;
      else if (row % z.tokens >= z.window - 1 - k)
        sum += g * get<A>(from.of, from.element(row - z.window + 1 + k));
    }
    s.of_channels[i] = sum;
  }
};
/// Adds pieces, in order, to what is there. Element (column, k) of `to` is at (k, column) of a piece.
template <class A>
struct AddPieces {
  const A* pieces;
  std::int64_t count, size, columns, taps;
  Reals to;
  template <int>
  __device__ void at(std::int64_t i) const {
    A sum{0};
    for (std::int64_t p = 0; p < count; ++p) sum += pieces[p * size + i % taps * columns + i / taps];
    put(to, i, get<A>(to, i) + sum);
  }
};

template <class A>
void add_weights(cudaStream_t stream, const StateSpaceTensors& in, const StateSpaceTensors& out,
                 const StateSpaceShape& z, const Scratch<A>& s) {
  const std::int64_t channels = z.channels(), size = (z.window + 1) * channels, parts = parts_of(z);
  each_one(stream, ConvolutionWeightParts<A>{in, z, s}, parts * size);
  each_one(stream, AddPieces<A>{s.of_channels, parts, size, channels, z.window, out.weight}, channels * z.window);
  each_one(stream, AddPieces<A>{s.of_channels + z.window * channels, parts, size, channels, 1, out.bias}, channels);
  const Reals of_heads[3] = {out.a_log, out.d, out.dt_bias};
  for (std::int64_t i = 0; i < 3; ++i)
    each_one(stream, AddPieces<A>{s.of_heads + i * z.heads, z.batch, 3 * z.heads, z.heads, 1, of_heads[i]}, z.heads);
}

}  // namespace

std::size_t state_space_grad_scratch_bytes(const StateSpaceShape& shape, ElementType type) {
  Divided<float> counted{nullptr};
  const Scratch<float> all(counted, shape);
  (void)all;
  return static_cast<std::size_t>(counted.used) * sum_bytes(type);
}

void state_space_grad(cudaStream_t stream, Reals dy, const StateSpaceTensors& in, const StateSpaceTensors& gradients,
                      const StateSpaceShape& z, void* scratch) {
  if (z.rows() == 0) return;
  with_sums_of(dy.type, [&](auto a) {
    using A = decltype(a);
    Divided<A> divided{static_cast<A*>(scratch)};
    const Scratch<A> s(divided, z);
    mix(stream, in, z, s.mixed);
    const Units units(z);
    REHEARSE_CUDA(cudaMemsetAsync(s.shared, 0,
                                  static_cast<std::size_t>(units.count * z.tokens * 2 * z.state) * sizeof(A), stream));
    launch(&backward_kernel<A>, dim3(static_cast<unsigned>(units.at_once)), dim3(kThreads), 0, stream, in, gradients,
           dy, z, s, units);
    each_one(stream, Unmix<A>{in, z, s, units.lanes}, z.rows() * z.channels());
    each_one(stream, ConvolutionInputGrad<A>{in, gradients, z, s.dmixed}, z.rows() * z.channels());
    if (gradients.weight.data != nullptr) add_weights(stream, in, gradients, z, s);
  });
}

}  // namespace rehearse::cuda
