// Sums of columns: gradients of biases, and of the weights of norms. Rows are divided into parts whose number depends
// on the size alone; a block adds up a part, and a second kernel the parts, each in one order: the same bits every
// time.

#include "gpu_backend/cuda/kernels/parts.cuh"

namespace rehearse::cuda {

namespace {

constexpr unsigned kColumnThreads = 32, kRowLanes = 8, kPartLanes = 16;

/// Matrices of as many rows, side by side.
template <class T>
struct Columns {
  const T* dy[kMostColumnSums];
  std::int64_t columns[kMostColumnSums], before[kMostColumnSums];  ///< Of each, and of those left of it.
  std::int64_t apart[kMostColumnSums];                             ///< Elements from row to row.
  unsigned first_block[kMostColumnSums];
  int count = 0;
  std::int64_t all = 0;  ///< Columns.
};

/// Partial sums over the rows of a part, per column: of dy (times x^, where moments are given, of one matrix), and of
/// dy alone to `plain`. A row here is `runs` of those that moments are of. V columns per thread.
template <int V, class T>
__global__ void column_parts_kernel(Columns<T> from, const T* x, const Acc<T>* moments_of, Acc<T>* weighted,
                                    Acc<T>* plain, std::int64_t rows, std::int64_t runs) {
  using A = Acc<T>;
  constexpr int kColumns = static_cast<int>(kColumnThreads) * V;
  __shared__ A sums[2][kRowLanes][kColumns];
  int which = from.count - 1;
  while (from.first_block[which] > blockIdx.x) --which;
  const T* dy = from.dy[which];
  const std::int64_t columns = from.columns[which],
                     base = static_cast<std::int64_t>(blockIdx.x - from.first_block[which]) * kColumns,
                     c = base + threadIdx.x * V, first = static_cast<std::int64_t>(blockIdx.y) * kRowsOfPart,
                     end = first + kRowsOfPart < rows ? first + kRowsOfPart : rows;
  A a[V] = {}, b[V] = {};
  if (c < columns) {
    const std::int64_t run = c / (columns / runs);
#pragma unroll 4
    for (std::int64_t r = first + threadIdx.y; r < end; r += kRowLanes) {
      const auto g = read<V>(dy, r * from.apart[which] + c);
      if (x != nullptr) {
        const auto v = read<V>(x, r * columns + c);
        const std::int64_t m = 2 * (r * runs + run);
        const A mean = moments_of[m], inverse = moments_of[m + 1];
#pragma unroll
        for (int i = 0; i < V; ++i) a[i] += g.at[i] * (v.at[i] - mean) * inverse;
      }
#pragma unroll
      for (int i = 0; i < V; ++i) b[i] += g.at[i];
    }
  }
#pragma unroll
  for (int i = 0; i < V; ++i) {
    sums[0][threadIdx.y][threadIdx.x * V + i] = a[i];
    sums[1][threadIdx.y][threadIdx.x * V + i] = b[i];
  }
  __syncthreads();
  // From here on a column per thread.
  const int mine = static_cast<int>(threadIdx.y * kColumnThreads + threadIdx.x);
  if (mine >= kColumns || base + mine >= columns) return;
  A of_weighted{0}, of_plain{0};
  for (unsigned i = 0; i < kRowLanes; ++i) of_weighted += sums[0][i][mine], of_plain += sums[1][i][mine];
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.y) * from.all + from.before[which] + base + mine;
  if (weighted != nullptr) weighted[at] = of_weighted;
  if (plain != nullptr) plain[at] = of_plain;
}

/// What parts are added to: none where `sum` is null.
template <class A, class G>
struct PartsAndSum {
  const A* parts;
  G* sum;
};

/// Adds the parts to the sum. A row of blocks for each of the two.
template <class A, class G>
__global__ void add_parts_kernel(PartsAndSum<A, G> first, PartsAndSum<A, G> second, std::int64_t count,
                                 std::int64_t columns) {
  __shared__ A lanes[kPartLanes][kColumnThreads];
  const PartsAndSum<A, G> mine = blockIdx.y == 0 ? first : second;
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x;
  A total{0};
  if (c < columns)
    for (std::int64_t p = threadIdx.y; p < count; p += kPartLanes) total += mine.parts[p * columns + c];
  lanes[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || c >= columns) return;
  for (unsigned i = 1; i < kPartLanes; ++i) total += lanes[i][threadIdx.x];
  mine.sum[c] = narrow<G>(static_cast<Acc<G>>(widen(mine.sum[c]) + total));
}

template <class A, class G>
void add_parts(cudaStream_t stream, PartsAndSum<A, G> first, PartsAndSum<A, G> second, std::int64_t rows,
               std::int64_t columns) {
  const dim3 grid(static_cast<unsigned>((columns + kColumnThreads - 1) / kColumnThreads),
                  second.sum != nullptr ? 2 : 1);
  launch(&add_parts_kernel<A, G>, grid, dim3(kColumnThreads, kPartLanes), 0, stream, first, second, row_parts(rows),
         columns);
}

/// What norms multiply by, of the one matrix.
template <class T>
struct Normalised {
  const T* x = nullptr;
  const Acc<T>* moments_of = nullptr;
  std::int64_t runs = 1;
};

/// By vectors where the columns of every matrix, or of every run, are made of them.
template <class T>
void column_parts(cudaStream_t stream, const ColumnTerm* terms, int count, const Normalised<T>& by, Acc<T>* weighted,
                  Acc<T>* plain, std::int64_t rows) {
  const auto aligned = [](const T* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  bool vectors = aligned(by.x);
  for (int i = 0; i < count; ++i)
    vectors = vectors && terms[i].columns / by.runs % kVector<T> == 0 && terms[i].apart % kVector<T> == 0 &&
              aligned(in<T>(terms[i].dy));
  const auto start = [&](auto v) {
    constexpr int V = decltype(v)::value;
    const std::int64_t each = static_cast<std::int64_t>(kColumnThreads) * V;
    Columns<T> from;
    unsigned blocks = 0;
    for (; from.count < count; ++from.count) {
      const int i = from.count;
      from.dy[i] = in<T>(terms[i].dy), from.columns[i] = terms[i].columns, from.before[i] = from.all;
      from.apart[i] = terms[i].apart, from.first_block[i] = blocks;
      from.all += terms[i].columns;
      blocks += static_cast<unsigned>((terms[i].columns + each - 1) / each);
    }
    launch(&column_parts_kernel<V, T>, dim3(blocks, static_cast<unsigned>(row_parts(rows))),
           dim3(kColumnThreads, kRowLanes), 0, stream, from, by.x, by.moments_of, weighted, plain, rows, by.runs);
  };
  if (vectors)
    start(std::integral_constant<int, kVector<T>>{});
  else
    start(std::integral_constant<int, 1>{});
}

}  // namespace

void add_row_parts(cudaStream_t stream, ElementType of, const void* weighted, Reals dweight, const void* plain,
                   void* dbias, std::int64_t rows, std::int64_t columns) {
  with_sum(of, dweight.type, [&](auto t, auto g) {
    using A = Acc<decltype(t)>;
    using G = decltype(g);
    add_parts<A, G>(stream, {static_cast<const A*>(weighted), out<G>(dweight)},
                    {static_cast<const A*>(plain), static_cast<G*>(dbias)}, rows, columns);
  });
}

std::size_t norm_scratch_bytes(const NormShape& z, ElementType type) {
  const std::size_t size = type == ElementType::real64 ? 8 : 4;
  return static_cast<std::size_t>(2 * z.rows + 2 * row_parts(z.rows / z.runs) * z.width * z.runs) * size;
}

void norm_weight_grad(cudaStream_t stream, Reals x, Reals dy, Reals dweight, void* dbias, const NormShape& z,
                      void* scratch) {
  norm_moments(stream, x, scratch, z);
  with_sum(x.type, dweight.type, [&](auto t, auto g) {
    using T = decltype(t);
    using G = decltype(g);
    using A = Acc<T>;
    const std::int64_t rows = z.rows / z.runs, columns = z.width * z.runs;
    A *moments_of = static_cast<A*>(scratch), *weighted = moments_of + 2 * z.rows,
      *plain = weighted + row_parts(rows) * columns;
    const ColumnTerm term{dy, columns, columns};
    column_parts<T>(stream, &term, 1, {in<T>(x), moments_of, z.runs}, weighted, dbias != nullptr ? plain : nullptr,
                    rows);
    add_parts<A, G>(stream, {weighted, out<G>(dweight)}, {plain, static_cast<G*>(dbias)}, rows, columns);
  });
}

std::size_t column_scratch_bytes(std::int64_t rows, std::int64_t columns, ElementType type) {
  return static_cast<std::size_t>(row_parts(rows) * columns) * (type == ElementType::real64 ? 8 : 4);
}

void column_sum(cudaStream_t stream, const ColumnTerm* terms, int count, Reals sum, std::int64_t rows, void* scratch) {
  std::int64_t columns = 0;
  for (int i = 0; i < count; ++i) columns += terms[i].columns;
  if (rows == 0 || columns == 0) return;
  if (count > kMostColumnSums) throw std::logic_error("more matrices side by side than a kernel is told of");
  with_sum(terms[0].dy.type, sum.type, [&](auto t, auto g) {
    using T = decltype(t);
    using G = decltype(g);
    auto* parts = static_cast<Acc<T>*>(scratch);
    column_parts<T>(stream, terms, count, {}, nullptr, parts, rows);
    add_parts<Acc<T>, G>(stream, {parts, out<G>(sum)}, {nullptr, nullptr}, rows, columns);
  });
}

}  // namespace rehearse::cuda
