// LAMB and Adafactor. Sums over columns, too, are made in chunks whose number the sizes give, then added in order.

#include "gpu_backend/cuda/kernels/optimizer_norms.hpp"
#include "gpu_backend/cuda/kernels/parts.cuh"

namespace rehearse::cuda {

namespace {

constexpr std::int64_t kRowsPerChunk = 64, kMostChunks = 64;

// ---- LAMB

template <class A>
struct LambStep {
  LambTensor t;
  LambRule r;
  __device__ A direction(std::int64_t i, A first, A second) const {
    return first / static_cast<A>(r.correct1.get()) /
               (sqrt(second / static_cast<A>(r.correct2.get())) + static_cast<A>(r.epsilon)) +
           static_cast<A>(t.decay) * get<A>(t.weights, i);
  }
  __device__ A stored_direction(std::int64_t i) const { return direction(i, get<A>(t.first, i), get<A>(t.second, i)); }
};
template <class A>
struct LambMoments {
  LambStep<A> s;
  template <int>
  __device__ void at(std::int64_t i) const {
    const A g = get<A>(s.t.gradient, i);
    put(s.t.first, i, static_cast<A>(s.r.beta1) * get<A>(s.t.first, i) + static_cast<A>(1 - s.r.beta1) * g);
    put(s.t.second, i, static_cast<A>(s.r.beta2) * get<A>(s.t.second, i) + static_cast<A>(1 - s.r.beta2) * g * g);
  }
};
template <class A>
struct SquareOf {
  Reals x;
  __device__ A operator()(std::int64_t i) const {
    const A v = get<A>(x, i);
    return v * v;
  }
};
template <class A>
struct SquareOfDirection {
  LambStep<A> s;
  __device__ A operator()(std::int64_t i) const {
    const A v = s.stored_direction(i);
    return v * v;
  }
};
template <class A>
struct LambUpdate {
  LambStep<A> s;
  template <int>
  __device__ void at(std::int64_t i) const {
    const A weights = get<A>(s.t.norms, 0), direction = get<A>(s.t.norms, 1);
    const A trust = s.t.scaled && weights > A(0) && direction > A(0) ? sqrt(weights / direction) : A(1);
    put(s.t.weights, i, get<A>(s.t.weights, i) - static_cast<A>(s.r.rate) * trust * s.stored_direction(i));
  }
};

// ---- Adafactor

/// Stored place of what is at local coordinate `x` of dimension d of `from`, along dimension e of `to`; -1 for padding.
__device__ inline std::int64_t along(const Places& from, int d, std::int64_t x, const Places& to, int e) {
  const std::int64_t global = from.lines[d].at(x);
  if (global >= from.shape[d]) return -1;
  const Line& line = to.lines[e];
  return global >= line.first && global < line.first + line.length ? global - line.first
                                                                   : global - line.second + line.length;
}

/// A matrix as its elements are stored: `columns` beside each other, `rows` of an expert, `experts` below each other.
struct Local {
  std::int64_t experts, rows, columns;
  __host__ __device__ explicit Local(const FactoredMatrix& m)
      : experts(m.experts ? m.weight.extents[0] : 1), rows(m.weight.extents[m.experts ? 1 : 0]), columns(1) {
    for (int d = m.experts ? 2 : 1; d < m.weight.rank; ++d) columns *= m.weight.extents[d];
  }
};
/// Places of the statistics of a row and of a column of an expert; -1 for padding.
__device__ inline std::int64_t row_place(const FactoredMatrix& m, std::int64_t expert, std::int64_t row) {
  if (!m.experts) return along(m.weight, 0, row, m.rows, 0);
  const std::int64_t e = along(m.weight, 0, expert, m.rows, 0), r = along(m.weight, 1, row, m.rows, 1);
  return e < 0 || r < 0 ? -1 : e * m.rows.extents[1] + r;
}
__device__ inline std::int64_t column_place(const FactoredMatrix& m, std::int64_t expert, std::int64_t column) {
  const int lead = m.experts ? 1 : 0;
  std::int64_t out = 0, stride = 1;
  for (int d = m.weight.rank - 1; d > lead; --d) {
    const std::int64_t x = along(m.weight, d, column % m.weight.extents[d], m.columns, d - 1);
    if (x < 0) return -1;
    out += x * stride;
    stride *= m.columns.extents[d - 1];
    column /= m.weight.extents[d];
  }
  if (!m.experts) return out;
  const std::int64_t e = along(m.weight, 0, expert, m.columns, 0);
  return e < 0 ? -1 : e * stride + out;
}
/// Stored element of a place, or -1.
__device__ inline std::int64_t element(const FactoredMatrix& m, const Local& z, std::int64_t expert, std::int64_t row,
                                       std::int64_t column) {
  const std::int64_t i = (expert * z.rows + row) * z.columns + column - m.weight.flat;
  return i >= 0 && i < m.weight.stored ? i : -1;
}
__host__ __device__ inline std::int64_t per_expert(const Places& p, bool experts) {
  std::int64_t n = 1;
  for (int d = experts ? 1 : 0; d < p.rank; ++d) n *= p.extents[d];
  return n;
}
/// Second moment of stored element i, in fp64: where all gradients of a row and of a column are 0 it is smaller than
/// fp32 knows. False for padding.
__device__ inline bool moment(const FactoredMatrix& m, const Statistics& s, const double* means, std::int64_t i,
                              double& out) {
  const Local z(m);
  i += m.weight.flat;
  const std::int64_t expert = i / (z.rows * z.columns), r = row_place(m, expert, i / z.columns % z.rows),
                     c = column_place(m, expert, i % z.columns);
  if (r < 0 || c < 0) return false;
  const std::int64_t of = !m.experts ? 0 : m.rows_complete ? r / m.rows.extents[1] : c / per_expert(m.columns, true);
  out = get<double>(s.rows, r) * get<double>(s.columns, c) / means[of];
  return true;
}

/// A block per row.
template <class A>
__global__ void row_sums_kernel(Reals gradient, Reals sums, FactoredMatrix m, A epsilon) {
  const Local z(m);
  for (std::int64_t job = blockIdx.x; job < z.experts * z.rows; job += gridDim.x) {
    const std::int64_t expert = job / z.rows, row = job % z.rows, to = row_place(m, expert, row);
    A sum = A(0);
    for (std::int64_t c = threadIdx.x; c < z.columns; c += blockDim.x) {
      const std::int64_t i = element(m, z, expert, row, c);
      if (i < 0 || column_place(m, expert, c) < 0) continue;
      const A g = get<A>(gradient, i);
      sum += g * g + epsilon;
    }
    sum = over_block<Sum>(sum, A(0));
    if (threadIdx.x == 0 && to >= 0) put(sums, to, sum);
  }
}
/// A column of an expert and some of its rows.
template <class A>
struct ColumnPart {
  Reals gradient;
  FactoredMatrix m;
  A epsilon;
  std::int64_t rows_each;
  A* parts;
  template <int>
  __device__ void at(std::int64_t job) const {
    const Local z(m);
    const std::int64_t columns = z.experts * z.columns, chunk = job / columns, expert = job % columns / z.columns,
                       column = job % z.columns;
    A sum = A(0);
    for (std::int64_t row = chunk * rows_each; row < (chunk + 1) * rows_each && row < z.rows; ++row) {
      const std::int64_t i = element(m, z, expert, row, column);
      if (i < 0 || row_place(m, expert, row) < 0) continue;
      const A g = get<A>(gradient, i);
      sum += g * g + epsilon;
    }
    parts[job] = sum;
  }
};
template <class A>
struct ColumnSum {
  const A* parts;
  Reals sums;
  FactoredMatrix m;
  std::int64_t chunks;
  template <int>
  __device__ void at(std::int64_t job) const {
    const Local z(m);
    const std::int64_t to = column_place(m, job / z.columns, job % z.columns);
    A sum = A(0);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += parts[chunk * z.experts * z.columns + job];
    if (to >= 0) put(sums, to, sum);
  }
};
std::int64_t chunks_of(const Local& z) {
  const std::int64_t n = (z.rows + kRowsPerChunk - 1) / kRowsPerChunk;
  return n < 1 ? 1 : n > kMostChunks ? kMostChunks : n;
}

template <class A>
struct Blend {
  Reals sum, statistic;
  A over;
  PerStep<double> keep;
  template <int>
  __device__ void at(std::int64_t i) const {
    const A k = static_cast<A>(keep.get());
    put(statistic, i, k * get<A>(statistic, i) + (A(1) - k) * get<A>(sum, i) / over);
  }
};
/// A block per expert: the mean of its statistics.
__global__ void means_kernel(Reals statistics, std::int64_t each_has, double* means) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < each_has; i += blockDim.x)
    sum += get<double>(statistics, blockIdx.x * each_has + i);
  sum = over_block<Sum>(sum, 0.0);
  if (threadIdx.x == 0) means[blockIdx.x] = sum / static_cast<double>(each_has);
}
struct FactoredChange {
  Reals gradient;
  Statistics statistics;
  FactoredMatrix m;
  const double* means;
  __device__ double operator()(std::int64_t i) const {
    double v = 1;
    const auto g = get<double>(gradient, i);
    return moment(m, statistics, means, i, v) ? g * g / v : 0.0;
  }
};
template <class A>
struct WholeMoment {
  Reals gradient, second;
  A epsilon;
  PerStep<double> keep;
  template <int>
  __device__ void at(std::int64_t i) const {
    const A k = static_cast<A>(keep.get()), g = get<A>(gradient, i);
    put(second, i, k * get<A>(second, i) + (A(1) - k) * (g * g + epsilon));
  }
};
template <class A>
struct WholeChange {
  Reals gradient, second;
  __device__ A operator()(std::int64_t i) const {
    const A g = get<A>(gradient, i);
    return g * g / get<A>(second, i);
  }
};

/// What all elements of a tensor have in common.
struct AdafactorStep {
  Reals size, change;
  AdafactorRule r;
  __device__ double rate() const {
    const double root = sqrt(get<double>(size, 0) / r.elements);
    return r.by_size ? r.rate.get() * (root > r.smallest ? root : r.smallest) : r.rate.get();
  }
  __device__ double step() const {
    const double over = sqrt(get<double>(change, 0) / r.elements) / r.threshold;
    return rate() / (over > 1.0 ? over : 1.0);
  }
};
__device__ inline void take_step(const AdafactorStep& s, const Reals& gradient, const Reals& weights, std::int64_t i,
                                 double second) {
  const auto w = get<double>(weights, i);
  put(weights, i, w - (s.step() * get<double>(gradient, i) / sqrt(second) + s.r.decay * s.rate() * w));
}
struct AdafactorMatrix {
  Reals gradient, weights;
  AdafactorStep s;
  Statistics statistics;
  FactoredMatrix m;
  const double* means;
  template <int>
  __device__ void at(std::int64_t i) const {
    double v = 1;
    if (moment(m, statistics, means, i, v)) take_step(s, gradient, weights, i, v);
  }
};
struct AdafactorVector {
  Reals gradient, weights, second;
  AdafactorStep s;
  template <int>
  __device__ void at(std::int64_t i) const {
    take_step(s, gradient, weights, i, get<double>(second, i));
  }
};

std::int64_t experts_held(const FactoredMatrix& m) {
  return !m.experts ? 1 : m.rows_complete ? m.rows.extents[0] : m.columns.extents[0];
}
}  // namespace

std::size_t sum_scratch_bytes(std::int64_t n) { return parts_bytes(n); }
std::size_t factor_scratch_bytes(const FactoredMatrix& m) {
  const Local z(m);
  return static_cast<std::size_t>(chunks_of(z) * z.experts * z.columns) * sizeof(double);
}
std::size_t means_bytes(const FactoredMatrix& m) { return static_cast<std::size_t>(experts_held(m)) * sizeof(double); }

void lamb_moments(cudaStream_t stream, const LambTensor& t, const LambRule& rule, void* scratch) {
  with_sums_of(t.first.type, [&](auto a) {
    using A = decltype(a);
    const LambStep<A> step{t, rule};
    each_one(stream, LambMoments<A>{step}, t.n);
    over_all<Sum>(stream, SquareOf<A>{t.weights}, t.n, t.norms, 0, scratch);
    over_all<Sum>(stream, SquareOfDirection<A>{step}, t.n, t.norms, 1, scratch);
  });
}
void lamb(cudaStream_t stream, const LambTensor& t, const LambRule& rule) {
  with_sums_of(t.first.type, [&](auto a) { each_one(stream, LambUpdate<decltype(a)>{{t, rule}}, t.n); });
}

void factor_sums(cudaStream_t stream, Reals gradient, const Statistics& sums, const FactoredMatrix& m, double epsilon,
                 void* scratch) {
  const Local z(m);
  const std::int64_t chunks = chunks_of(z);
  REHEARSE_CUDA(
      cudaMemsetAsync(sums.rows.data, 0, static_cast<std::size_t>(m.rows.stored) * size_of(sums.rows.type), stream));
  REHEARSE_CUDA(cudaMemsetAsync(sums.columns.data, 0,
                                static_cast<std::size_t>(m.columns.stored) * size_of(sums.columns.type), stream));
  with_sums_of(sums.rows.type, [&](auto a) {
    using A = decltype(a);
    launch(&row_sums_kernel<A>, dim3(blocks_for(z.experts * z.rows)), dim3(kThreads), 0, stream, gradient, sums.rows, m,
           static_cast<A>(epsilon));
    auto* parts = static_cast<A*>(scratch);
    each_one(stream, ColumnPart<A>{gradient, m, static_cast<A>(epsilon), (z.rows + chunks - 1) / chunks, parts},
             chunks * z.experts * z.columns);
    each_one(stream, ColumnSum<A>{parts, sums.columns, m, chunks}, z.experts * z.columns);
  });
}
void blend(cudaStream_t stream, Reals sum, Reals statistic, std::int64_t n, double over, PerStep<double> keep) {
  with_sums_of(statistic.type, [&](auto a) {
    each_one(stream, Blend<decltype(a)>{sum, statistic, static_cast<decltype(a)>(over), keep}, n);
  });
}
void factor_means(cudaStream_t stream, const Statistics& s, const FactoredMatrix& m, double* means) {
  launch(&means_kernel, dim3(static_cast<unsigned>(experts_held(m))), dim3(kThreads), 0, stream,
         m.rows_complete ? s.rows : s.columns, per_expert(m.rows_complete ? m.rows : m.columns, m.experts), means);
}
void factored_change(cudaStream_t stream, Reals gradient, const Statistics& s, const FactoredMatrix& m,
                     const double* means, Reals change, void* scratch) {
  over_all<Sum>(stream, FactoredChange{gradient, s, m, means}, m.weight.stored, change, 0, scratch);
}
void whole_change(cudaStream_t stream, Reals gradient, Reals second, std::int64_t n, double epsilon,
                  PerStep<double> keep, Reals change, void* scratch) {
  with_sums_of(second.type, [&](auto a) {
    using A = decltype(a);
    each_one(stream, WholeMoment<A>{gradient, second, static_cast<A>(epsilon), keep}, n);
    over_all<Sum>(stream, WholeChange<A>{gradient, second}, n, change, 0, scratch);
  });
}

void adafactor(cudaStream_t stream, Reals gradient, Reals weights, Reals size, Reals change, const Statistics& s,
               const FactoredMatrix& m, const double* means, const AdafactorRule& rule) {
  each_one(stream, AdafactorMatrix{gradient, weights, {size, change, rule}, s, m, means}, m.weight.stored);
}
void adafactor_vector(cudaStream_t stream, Reals gradient, Reals weights, Reals size, Reals change, Reals second,
                      std::int64_t n, const AdafactorRule& rule) {
  each_one(stream, AdafactorVector{gradient, weights, second, {size, change, rule}}, n);
}

}  // namespace rehearse::cuda
