// Gradients of a table: of all tokens of a row the sum, in an order that depends on the tokens alone. Few tokens are
// searched by a block per token, which is quadratic; from kSortFrom on they are sorted by row, and what is next to each
// other is added in tiles, whose sums are joined where a row goes on into the next.

#include <limits>

#include "gpu_backend/cuda/kernels/order.hpp"
#include "gpu_backend/cuda/kernels/table_rows.cuh"

namespace rehearse::cuda {

namespace {

// ---- few tokens

/// The table's row of every token, -1 where another rank holds it, and the first token of every row.
__global__ void first_tokens_kernel(const std::int64_t* tokens, int* rows, int* first, TableShape z) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; t < z.tokens; t += step) {
    const int row = static_cast<int>(row_of(z, tokens[t]));
    rows[t] = row;
    if (row >= 0) atomicMin(first + row, static_cast<int>(t));  // The least of integers, whatever the order.
  }
}

constexpr int kLooks = 4, kColumnsEach = 8;  // Tokens that a thread looks at at once; columns that it adds up.

/// A block per token. The first token of a row adds up all of its row, in order; the blocks of the others end.
template <class T, class G>
__global__ void embedding_grad_kernel(const int* rows, const int* first, const T* dy, G* table, TableShape z) {
  __shared__ unsigned matches[kLooks][kThreads / kWarp];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (std::int64_t t = blockIdx.x; t < z.tokens; t += gridDim.x) {
    const int row = rows[t];
    if (row < 0 || first[row] != t) continue;
    G* to = table + static_cast<std::int64_t>(row) * z.width;
    for (std::int64_t columns = 0; columns < z.width; columns += kThreads * kColumnsEach) {
      Acc<G> sums[kColumnsEach];
#pragma unroll
      for (int k = 0; k < kColumnsEach; ++k) {
        const std::int64_t c = columns + k * static_cast<std::int64_t>(kThreads) + threadIdx.x;
        sums[k] = c < z.width ? widen(to[c]) : Acc<G>(0);
      }
      for (std::int64_t from = t; from < z.tokens; from += kThreads * kLooks) {
        int found[kLooks], any = 0;
#pragma unroll
        for (int e = 0; e < kLooks; ++e) {
          const std::int64_t j = from + e * static_cast<std::int64_t>(kThreads) + threadIdx.x;
          found[e] = j < z.tokens && rows[j] == row ? 1 : 0;
          any |= found[e];
        }
        if (__syncthreads_or(any) == 0) continue;  // Also: nobody still reads the last matches.
#pragma unroll
        for (int e = 0; e < kLooks; ++e) {
          const unsigned bits = __ballot_sync(0xffffffffu, found[e] != 0);
          if (threadIdx.x % kWarp == 0) matches[e][warp] = bits;
        }
        __syncthreads();
        for (int e = 0; e < kLooks; ++e)
          for (int w = 0; w < static_cast<int>(kThreads) / kWarp; ++w)
            for (unsigned bits = matches[e][w]; bits != 0; bits &= bits - 1) {
              const std::int64_t j =
                  from + e * static_cast<std::int64_t>(kThreads) + w * kWarp + __ffs(static_cast<int>(bits)) - 1;
#pragma unroll
              for (int k = 0; k < kColumnsEach; ++k) {
                const std::int64_t c = columns + k * static_cast<std::int64_t>(kThreads) + threadIdx.x;
                if (c < z.width) sums[k] += static_cast<Acc<G>>(widen(dy[j * z.width + c]));
              }
            }
      }
#pragma unroll
      for (int k = 0; k < kColumnsEach; ++k) {
        const std::int64_t c = columns + k * static_cast<std::int64_t>(kThreads) + threadIdx.x;
        if (c < z.width) to[c] = narrow<G>(sums[k]);
      }
    }
  }
}

// ---- many

constexpr int kTile = 32, kAhead = 8;  // Tokens that a thread adds up; those that it reads at once.
constexpr int kColumnsAtOnce = 4;

/// Tokens of rows that another rank holds come last.
struct RowKeys {
  const std::int64_t* tokens;
  std::uint32_t* keys;
  int* numbers;
  TableShape z;
  template <int>
  __device__ void at(std::int64_t t) const {
    const std::int64_t row = row_of(z, tokens[t]);
    keys[t] = static_cast<std::uint32_t>(row < 0 ? z.rows : row), numbers[t] = static_cast<int>(t);
  }
};

/// Tokens in the order of their rows.
struct SortedTokens {
  const std::uint32_t* rows;
  const int* tokens;
  std::int64_t count;
  __device__ bool same(std::int64_t a, std::int64_t b) const { return a >= 0 && b < count && rows[a] == rows[b]; }
};

/// Sums of a tile that belong to a row which began before it (0), or goes on behind it (1).
template <class A>
struct TileSums {
  A* at;
  __device__ A* of(std::int64_t tile, int which, std::int64_t width) const { return at + (2 * tile + which) * width; }
};

/// V columns of a tile of tokens per thread. Rows that begin and end in a tile are done here.
template <int V, class T, class G>
__global__ void tile_sums_kernel(SortedTokens from, const T* dy, G* table, TileSums<Acc<G>> parts, TableShape z) {
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  if (c >= z.width) return;
  const std::int64_t tiles = (from.count + kTile - 1) / kTile;
  for (std::int64_t tile = blockIdx.y; tile < tiles; tile += gridDim.y) {
    const std::int64_t first = tile * kTile, end = first + kTile < from.count ? first + kTile : from.count;
    Acc<G> sum[V] = {};
    bool began = !from.same(first - 1, first);
    for (std::int64_t base = first; base < end; base += kAhead) {
      Values<V, Acc<T>> ahead[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (base + k < end) ahead[k] = read<V>(dy, from.tokens[base + k] * z.width + c);
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const std::int64_t p = base + k;
        if (p >= end || static_cast<std::int64_t>(from.rows[p]) >= z.rows) break;
#pragma unroll
        for (int i = 0; i < V; ++i) sum[i] += static_cast<Acc<G>>(ahead[k].at[i]);
        const bool ends = !from.same(p, p + 1);
        if (!ends && p + 1 < end) continue;
        if (ends && began) {
          const std::int64_t at = static_cast<std::int64_t>(from.rows[p]) * z.width + c;
          auto to = read<V>(table, at);
#pragma unroll
          for (int i = 0; i < V; ++i) to.at[i] += sum[i];
          write<V>(table, at, to);
        } else {
          Acc<G>* part = parts.of(tile, began ? 1 : 0, z.width) + c;
#pragma unroll
          for (int i = 0; i < V; ++i) part[i] = sum[i];
        }
#pragma unroll
        for (int i = 0; i < V; ++i) sum[i] = Acc<G>(0);
        began = true;
      }
    }
  }
}

/// Of every tile whose last row began in it and goes on: that row's sums, tile by tile.
template <class G>
__global__ void join_tiles_kernel(SortedTokens from, G* table, TileSums<Acc<G>> parts, TableShape z) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x,
                     tiles = (from.count + kTile - 1) / kTile;
  if (c >= z.width) return;
  for (std::int64_t tile = blockIdx.y; tile + 1 < tiles; tile += gridDim.y) {
    const std::int64_t first = tile * kTile, last = first + kTile - 1, row = from.rows[last];
    if (row >= z.rows || !from.same(last, last + 1)) continue;
    if (from.same(first, last) && from.same(first - 1, first)) continue;  // It began earlier.
    Acc<G> sum = *(parts.of(tile, 1, z.width) + c);
    for (std::int64_t next = tile + 1; next < tiles && from.same(last, next * kTile); ++next)
      sum += *(parts.of(next, 0, z.width) + c);
    G* to = table + row * z.width + c;
    *to = narrow<G>(static_cast<Acc<G>>(widen(*to) + sum));
  }
}

/// Bytes for the sums of all tiles.
std::size_t tile_sums_bytes(const TableShape& z) {
  return static_cast<std::size_t>(2 * ((z.tokens + kTile - 1) / kTile) * z.width) * sizeof(double);
}
[[nodiscard]] bool sorts(const TableShape& z) {
  return worth_sorting(z.tokens) && z.rows < std::numeric_limits<int>::max();
}
dim3 grid_of_tiles(const TableShape& z, std::int64_t columns) {
  const std::int64_t tiles = (z.tokens + kTile - 1) / kTile, each = static_cast<std::int64_t>(kThreads) * columns;
  return {blocks_for((z.width + each - 1) / each),
          static_cast<unsigned>(tiles < kMostBlocksAbove ? tiles : kMostBlocksAbove)};
}

void embedding_grad_by_sorting(cudaStream_t stream, const std::int64_t* tokens, Reals dy, Reals table,
                               const TableShape& z, void* scratch) {
  const auto most = static_cast<std::uint32_t>(z.rows);
  const KeyedNumbers all = keyed_numbers(scratch, z.tokens, most);
  void* sums = static_cast<std::byte*>(scratch) + keyed_numbers_bytes(z.tokens, most);
  each<1>(stream, RowKeys{tokens, all.keys, all.numbers, z}, z.tokens, {});
  sort_by_key(stream, all, z.tokens, most);
  const SortedTokens sorted{all.sorted_keys, all.sorted, z.tokens};
  with_sum(dy.type, table.type, [&](auto t, auto g) {
    using T = decltype(t);
    using G = decltype(g);
    const TileSums<Acc<G>> parts{static_cast<Acc<G>*>(sums)};
    const bool vectors = z.width % kColumnsAtOnce == 0 && reinterpret_cast<std::uintptr_t>(dy.data) % 16 == 0 &&
                         reinterpret_cast<std::uintptr_t>(table.data) % 16 == 0;
    if (vectors)
      launch(&tile_sums_kernel<kColumnsAtOnce, T, G>, grid_of_tiles(z, kColumnsAtOnce), dim3(kThreads), 0, stream,
             sorted, in<T>(dy), out<G>(table), parts, z);
    else
      launch(&tile_sums_kernel<1, T, G>, grid_of_tiles(z, 1), dim3(kThreads), 0, stream, sorted, in<T>(dy),
             out<G>(table), parts, z);
    launch(&join_tiles_kernel<G>, grid_of_tiles(z, 1), dim3(kThreads), 0, stream, sorted, out<G>(table), parts, z);
  });
}

}  // namespace

std::size_t embedding_grad_scratch_bytes(const TableShape& z) {
  if (sorts(z)) return keyed_numbers_bytes(z.tokens, static_cast<std::uint32_t>(z.rows)) + tile_sums_bytes(z);
  return static_cast<std::size_t>(z.tokens + z.rows) * sizeof(int);
}

void embedding_grad(cudaStream_t stream, const std::int64_t* tokens, Reals dy, Reals table, const TableShape& z,
                    void* scratch) {
  if (z.tokens == 0) return;
  if (sorts(z)) return embedding_grad_by_sorting(stream, tokens, dy, table, z, scratch);
  if (z.tokens + z.rows > std::numeric_limits<int>::max()) throw std::logic_error("a table too large for 32-bit rows");
  int *rows = static_cast<int*>(scratch), *first = rows + z.tokens;
  REHEARSE_CUDA(cudaMemsetAsync(first, 0x7f, static_cast<std::size_t>(z.rows) * sizeof(int), stream));  // Past all.
  launch(&first_tokens_kernel, dim3(blocks_for((z.tokens + kThreads - 1) / kThreads)), dim3(kThreads), 0, stream,
         tokens, rows, first, z);
  with_sum(dy.type, table.type, [&](auto t, auto g) {
    using T = decltype(t);
    using G = decltype(g);
    launch(&embedding_grad_kernel<T, G>, dim3(blocks_for(z.tokens)), dim3(kThreads), 0, stream, rows, first, in<T>(dy),
           out<G>(table), z);
  });
}

}  // namespace rehearse::cuda
