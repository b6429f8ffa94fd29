// Attention on tensor cores in bfloat16 with fp32 sums, in the order of FlashAttention-2 (Dao 2023): a block keeps 16
// rows per warp in registers and streams tiles of the other side through shared memory, two deep. Backward goes over
// queries for dq and over keys for dk and dv, each making the scores again, so that no sum needs atomics and results
// repeat bit for bit.

#include <limits>

#include "gpu_backend/cuda/kernels/attention.cuh"
#include "gpu_backend/cuda/kernels/mma.cuh"

namespace rehearse::cuda {

namespace {

constexpr int kTile = 64;            // Rows of a streamed tile.
constexpr int kColumns = kTile / 8;  // Fragments of C across it.
constexpr float kLog2E = 1.4426950408889634074f, kLn2 = 0.6931471805599453094f;
constexpr float kNone = -std::numeric_limits<float>::infinity();

/// Rows lie 16 bytes further apart than they are long, so that the eight rows of a matrix load hit different banks.
template <int D>
inline constexpr int kStride = D + 8;

/// Rows [first, first + kRows) of a head to a tile; zeros beyond `rows`.
template <int D, int kRows>
__device__ void fetch(Half* tile, const Half* head, std::int64_t apart, std::int64_t first, std::int64_t rows) {
  constexpr int kPieces = D / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPieces; i += static_cast<int>(blockDim.x)) {
    const int r = i / kPieces, c = i % kPieces * 8;
    const bool present = first + r < rows;
    copy_ahead(tile + r * kStride<D> + c, head + (present ? first + r : 0) * apart + c, present);
  }
}

/// Rows [row, row + 16), columns [column, column + 16) as a left factor.
template <int D>
__device__ FragmentA left(const Half* tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, m = lane / 8;
  FragmentA a;
  load_matrices(a.x, tile + (row + m % 2 * 8 + lane % 8) * kStride<D> + column + m / 2 * 8);
  return a;
}
/// Two right factors [16 columns of the tile, 8 rows of it each]: the tile transposed.
template <int D>
__device__ void right_transposed(FragmentB (&b)[2], const Half* tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, m = lane / 8;
  std::uint32_t x[4];
  load_matrices(x, tile + (row + m / 2 * 8 + lane % 8) * kStride<D> + column + m % 2 * 8);
  b[0] = {{x[0], x[1]}};
  b[1] = {{x[2], x[3]}};
}
/// Two right factors [16 rows of the tile, 8 columns of it each].
template <int D>
__device__ void right(FragmentB (&b)[2], const Half* tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, m = lane / 8;
  std::uint32_t x[4];
  load_transposed(x, tile + (row + m % 2 * 8 + lane % 8) * kStride<D> + column + m / 2 * 8);
  b[0] = {{x[0], x[1]}};
  b[1] = {{x[2], x[3]}};
}

/// c [16, kTile] += rows of `a` times the transposed tile `b`.
template <int D>
__device__ void times_transposed(FragmentC (&c)[kColumns], const Half* a, int row, const Half* b) {
#pragma unroll
  for (int k = 0; k < D; k += 16) {
    const FragmentA factor = left<D>(a, row, k);
#pragma unroll
    for (int n = 0; n < kColumns; n += 2) {
      FragmentB other[2];
      right_transposed<D>(other, b, n * 8, k);
      multiply(c[n], factor, other[0]);
      multiply(c[n + 1], factor, other[1]);
    }
  }
}
/// sum [16, D] += p [16, kTile] times the tile `b`; p is rounded to bfloat16.
template <int D>
__device__ void times(FragmentC (&sum)[D / 8], const FragmentC (&p)[kColumns], const Half* b) {
#pragma unroll
  for (int k = 0; k < kColumns; k += 2) {
    const FragmentA factor{{pack(p[k].x[0], p[k].x[1]), pack(p[k].x[2], p[k].x[3]), pack(p[k + 1].x[0], p[k + 1].x[1]),
                            pack(p[k + 1].x[2], p[k + 1].x[3])}};
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
      FragmentB other[2];
      right<D>(other, b, k * 8, n * 8);
      multiply(sum[n], factor, other[0]);
      multiply(sum[n + 1], factor, other[1]);
    }
  }
}

/// Over the four lanes that hold a row.
template <class Op>
__device__ float over_row(float x) {
  x = Op::of(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return Op::of(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/// Writes 16 rows of sums, those of them that exist.
template <int D>
__device__ void store(const FragmentC (&sum)[D / 8], Half* head, std::int64_t apart, std::int64_t first,
                      std::int64_t rows, const float (&factor)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = first + lane / 4 + half * 8;
    if (row >= rows) continue;
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
      *reinterpret_cast<std::uint32_t*>(head + row * apart + n * 8 + lane % 4 * 2) =
          pack(sum[n].x[2 * half] * factor[half], sum[n].x[2 * half + 1] * factor[half]);
  }
}

/// Key minus query position of the first of each: a query sees the keys with key + shift <= query.
__device__ int shift_of(const AttentionShape& z) { return static_cast<int>(z.key.first - z.query.first); }
/// Last key that a query sees; -1 for queries that do not exist.
__device__ int last_key(const AttentionShape& z, int query) {
  if (query >= z.queries) return -1;
  const int all = static_cast<int>(z.keys) - 1, seen = query - shift_of(z);
  return z.causal && seen < all ? seen : all;
}
/// First query that sees a key; beyond all where there is none.
__device__ int first_query(const AttentionShape& z, int key) {
  if (key >= z.keys) return static_cast<int>(z.queries);
  const int first = key + shift_of(z);
  return z.causal && first > 0 ? first : 0;
}
/// Tiles of keys that queries before `end` see.
__device__ int key_tiles(const AttentionShape& z, int end) {
  const int last = last_key(z, end < z.queries ? end - 1 : static_cast<int>(z.queries) - 1);
  return last < 0 ? 0 : last / kTile + 1;
}

constexpr int kForwardWarps = 8;
constexpr int kForwardRows = 16 * kForwardWarps;
template <int D>
inline constexpr std::size_t kForwardMemory = sizeof(Half) * kStride<D>*(kForwardRows + 4 * kTile);

/// A block per 128 queries of a head.
template <int D>
__global__ void __launch_bounds__(kForwardWarps* kWarp)
    forward_kernel(const Half* q, const Half* k, const Half* v, Half* out, float* lse, AttentionShape z) {
  Half* query_tile = reinterpret_cast<Half*>(launch_memory());
  Half* streamed = query_tile + kForwardRows * kStride<D>;
  const auto key_tile = [&](int j) { return streamed + (j % 2) * 2 * kTile * kStride<D>; };
  const auto value_tile = [&](int j) { return key_tile(j) + kTile * kStride<D>; };

  const std::int64_t b = blockIdx.y / z.heads, h = blockIdx.y % z.heads, shared_head = h / (z.heads / z.kv_heads);
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kForwardRows;  // The longest rows begin first.
  const Half *keys = k + place(b, 0, shared_head, z.keys, z.apart.k, D),
             *values = v + place(b, 0, shared_head, z.keys, z.apart.v, D);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp_row = static_cast<int>(threadIdx.x) / kWarp * 16;
  const int row = first + warp_row + lane / 4, tiles = key_tiles(z, first + kForwardRows);
  const int last[2] = {last_key(z, row), last_key(z, row + 8)};
  const float factor = static_cast<float>(z.scale) * kLog2E;

  const auto fetch_tiles = [&](int j) {
    fetch<D, kTile>(key_tile(j), keys, z.apart.k, j * kTile, z.keys);
    fetch<D, kTile>(value_tile(j), values, z.apart.v, j * kTile, z.keys);
    end_copies();
  };
  fetch<D, kForwardRows>(query_tile, q + place(b, 0, h, z.queries, z.apart.q, D), z.apart.q, first, z.queries);
  fetch_tiles(0);

  FragmentC sum[D / 8];
  float largest[2] = {kNone, kNone}, total[2] = {0, 0};
  for (int j = 0; j < tiles; ++j) {
    if (j + 1 < tiles) {
      fetch_tiles(j + 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    FragmentC s[kColumns];
    times_transposed<D>(s, query_tile, warp_row, key_tile(j));
    float now[2] = {largest[0], largest[1]};
#pragma unroll
    for (int n = 0; n < kColumns; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = j * kTile + n * 8 + lane % 4 * 2 + i % 2;
        s[n].x[i] = key <= last[i / 2] ? s[n].x[i] * factor : kNone;
        now[i / 2] = Max::of(now[i / 2], s[n].x[i]);
      }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      now[half] = over_row<Max>(now[half]);
      const float base = now[half] == kNone ? 0.0f : now[half], shrink = exp2f(largest[half] - base);
      largest[half] = now[half];
      now[half] = base;
      total[half] *= shrink;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) sum[n].x[2 * half] *= shrink, sum[n].x[2 * half + 1] *= shrink;
    }
#pragma unroll
    for (int n = 0; n < kColumns; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[n].x[i] = exp2f(s[n].x[i] - now[i / 2]);
        total[i / 2] += s[n].x[i];
      }
    times<D>(sum, s, value_tile(j));
    __syncthreads();  // The next fetch writes where this tile was read.
  }
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    total[half] = over_row<Sum>(total[half]);
    inverse[half] = total[half] > 0 ? 1.0f / total[half] : 0.0f;
    const std::int64_t query = row + half * 8;
    if (lane % 4 == 0 && query < z.queries)
      lse[(b * z.queries + query) * z.heads + h] = largest[half] * kLn2 + logf(total[half]);
  }
  store<D>(sum, out + place(b, 0, h, z.queries, z.heads * D, D), z.heads * D, first + warp_row, z.queries, inverse);
}

constexpr int kGradWarps = 4;
constexpr int kGradRows = 16 * kGradWarps;
template <int D>
inline constexpr std::size_t kGradMemory = sizeof(Half) * kStride<D>*(2 * kGradRows + 4 * kTile) +
                                           sizeof(float) * 4 * kTile;

/// One of the two passes of backward. Rows are keys (kKeys: their kept tiles are k and v, q and dout are streamed, over
/// all query heads that share them) or queries (kept q and dout, streamed k and v). Scores are kept times streamed,
/// their gradients likewise of the second pair.
template <int D, bool kKeys>
__global__ void __launch_bounds__(kGradWarps* kWarp)
    grad_kernel(const Half* dout, const Half* q, const Half* k, const Half* v, const float* lse, const float* delta,
                Half* dq, Half* dk, Half* dv, AttentionShape z) {
  Half* kept_tiles = reinterpret_cast<Half*>(launch_memory());
  Half* second_kept = kept_tiles + kGradRows * kStride<D>;
  Half* streamed = second_kept + kGradRows * kStride<D>;
  // Log-sum-exp and delta of streamed queries, two deep.
  float* per_column = reinterpret_cast<float*>(streamed + 4 * kTile * kStride<D>);
  const auto tile = [&](int j, int which) { return streamed + ((j % 2) * 2 + which) * kTile * kStride<D>; };
  const auto column_numbers = [&](int j) { return per_column + (j % 2) * 2 * kTile; };

  const int row_heads = static_cast<int>(kKeys ? z.kv_heads : z.heads),
            rows = static_cast<int>(kKeys ? z.keys : z.queries), columns = static_cast<int>(kKeys ? z.queries : z.keys);
  const int group = static_cast<int>(z.heads / z.kv_heads);
  // Elements from row to row of both streamed tensors, and of both kept ones.
  const std::int64_t of_dout = z.heads * D, first_apart = kKeys ? z.apart.q : z.apart.k,
                     second_apart = kKeys ? of_dout : z.apart.v, kept_apart = kKeys ? z.apart.k : z.apart.q,
                     second_kept_apart = kKeys ? z.apart.v : of_dout;
  const int b = static_cast<int>(blockIdx.y) / row_heads, row_head = static_cast<int>(blockIdx.y) % row_heads;
  const int first = static_cast<int>(kKeys ? blockIdx.x : gridDim.x - 1 - blockIdx.x) * kGradRows;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp_row = static_cast<int>(threadIdx.x) / kWarp * 16;
  const int row = first + warp_row + lane / 4;
  const float factor = static_cast<float>(z.scale) * kLog2E;
  // The columns that a row sees: queries from one on, or keys up to one.
  const int bound[2] = {kKeys ? first_query(z, row) : last_key(z, row),
                        kKeys ? first_query(z, row + 8) : last_key(z, row + 8)};
  const int begin = kKeys ? first_query(z, first) / kTile : 0,
            end = kKeys ? (columns + kTile - 1) / kTile : key_tiles(z, first + kGradRows);
  const int per_head = end > begin ? end - begin : 0, steps = kKeys ? group * per_head : per_head;
  const auto column_head = [&](int step) { return kKeys ? row_head * group + step / per_head : row_head / group; };
  const auto column_tile = [&](int step) { return begin + (kKeys ? step % per_head : step); };

  const auto fetch_tiles = [&](int step) {
    const int head = column_head(step), at = column_tile(step) * kTile;
    fetch<D, kTile>(tile(step, 0), (kKeys ? q : k) + place(b, 0, head, columns, first_apart, D), first_apart, at,
                    columns);
    fetch<D, kTile>(tile(step, 1), (kKeys ? dout : v) + place(b, 0, head, columns, second_apart, D), second_apart, at,
                    columns);
    if (kKeys)
      for (int i = static_cast<int>(threadIdx.x); i < kTile; i += static_cast<int>(blockDim.x)) {
        const int query = at + i < columns ? at + i : columns - 1;
        column_numbers(step)[i] = lse[(b * z.queries + query) * z.heads + head] * kLog2E;
        column_numbers(step)[kTile + i] = delta[(b * z.heads + head) * z.queries + query];
      }
    end_copies();
  };
  fetch<D, kGradRows>(kept_tiles, (kKeys ? k : q) + place(b, 0, row_head, rows, kept_apart, D), kept_apart, first,
                      rows);
  fetch<D, kGradRows>(second_kept, (kKeys ? v : dout) + place(b, 0, row_head, rows, second_kept_apart, D),
                      second_kept_apart, first, rows);
  if (steps > 0) fetch_tiles(0);

  float row_lse[2] = {0, 0}, row_delta[2] = {0, 0};
  if (!kKeys)
    for (int half = 0; half < 2; ++half) {
      const int query = row + half * 8 < rows ? row + half * 8 : rows - 1;
      row_lse[half] = lse[(b * z.queries + query) * z.heads + row_head] * kLog2E;
      row_delta[half] = delta[(b * z.heads + row_head) * z.queries + query];
    }
  FragmentC first_sum[D / 8], second_sum[kKeys ? D / 8 : 1];
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) {
      fetch_tiles(step + 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    FragmentC s[kColumns], ds[kColumns];
    times_transposed<D>(s, kept_tiles, warp_row, tile(step, 0));
    times_transposed<D>(ds, second_kept, warp_row, tile(step, 1));
    const int at = column_tile(step) * kTile;
#pragma unroll
    for (int n = 0; n < kColumns; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int c = n * 8 + lane % 4 * 2 + i % 2;
        const bool seen = kKeys ? at + c >= bound[i / 2] && at + c < columns : at + c <= bound[i / 2];
        const float log_sum = kKeys ? column_numbers(step)[c] : row_lse[i / 2],
                    less = kKeys ? column_numbers(step)[kTile + c] : row_delta[i / 2];
        s[n].x[i] = seen ? exp2f(s[n].x[i] * factor - log_sum) : 0.0f;
        ds[n].x[i] = s[n].x[i] * (ds[n].x[i] - less);
      }
    times<D>(first_sum, ds, tile(step, 0));
    if constexpr (kKeys) times<D>(second_sum, s, tile(step, 1));
    __syncthreads();  // The next fetch writes where this tile was read.
  }
  const float scale[2] = {static_cast<float>(z.scale), static_cast<float>(z.scale)}, one[2] = {1, 1};
  const std::int64_t to_apart = kKeys ? z.apart.dk : z.apart.dq;
  store<D>(first_sum, (kKeys ? dk : dq) + place(b, 0, row_head, rows, to_apart, D), to_apart, first + warp_row, rows,
           scale);
  if constexpr (kKeys)
    store<D>(second_sum, dv + place(b, 0, row_head, rows, z.apart.dv, D), z.apart.dv, first + warp_row, rows, one);
}

/// More shared memory than every kernel may take unasked.
template <class Kernel>
void allow(Kernel kernel, std::size_t bytes) {
  REHEARSE_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(bytes)));
}

dim3 grid_of(std::int64_t rows, int per_block, std::int64_t heads) {
  return {static_cast<unsigned>((rows + per_block - 1) / per_block), static_cast<unsigned>(heads)};
}

template <int D>
void forward(cudaStream_t stream, Reals q, Reals k, Reals v, Reals to, Reals lse, const AttentionShape& z) {
  allow(&forward_kernel<D>, kForwardMemory<D>);
  launch(&forward_kernel<D>, grid_of(z.queries, kForwardRows, z.batch * z.heads), dim3(kForwardWarps * kWarp),
         kForwardMemory<D>, stream, in<Half>(q), in<Half>(k), in<Half>(v), out<Half>(to), out<float>(lse), z);
}

template <int D, bool kKeys>
void backward(cudaStream_t stream, Reals dout, Reals q, Reals k, Reals v, Reals lse, Reals dq, Reals dk, Reals dv,
              const AttentionShape& z, const float* delta) {
  allow(&grad_kernel<D, kKeys>, kGradMemory<D>);
  launch(&grad_kernel<D, kKeys>,
         grid_of(kKeys ? z.keys : z.queries, kGradRows, z.batch * (kKeys ? z.kv_heads : z.heads)),
         dim3(kGradWarps * kWarp), kGradMemory<D>, stream, in<Half>(dout), in<Half>(q), in<Half>(k), in<Half>(v),
         in<float>(lse), delta, out<Half>(dq), out<Half>(dk), out<Half>(dv), z);
}

}  // namespace

bool on_tensor_cores(const AttentionShape& z, ElementType type) {
  // Positions in one piece, so that a mask is a bound per row; dropout's random numbers would crowd out the products.
  const bool in_order = z.query.length >= z.queries && z.key.length >= z.keys;
  // Rows begin at multiples of the 16 bytes that are copied at once.
  const AttentionRows& r = z.apart;
  for (const std::int64_t apart : {r.q, r.k, r.v, r.dq, r.dk, r.dv})
    if (apart % 8 != 0) return false;
  return in_order && z.window == 0 && !z.dropout.on() && type == ElementType::real16 && z.d == z.v &&
         (z.d == 64 || z.d == 128) && z.queries > 0 && z.keys > 0 && z.queries < (1 << 30) && z.keys < (1 << 30) &&
         z.batch * z.heads < 65536;
}

void attention_mma(cudaStream_t stream, Reals q, Reals k, Reals v, Reals to, Reals lse, const AttentionShape& z) {
  if (z.d == 64)
    forward<64>(stream, q, k, v, to, lse, z);
  else
    forward<128>(stream, q, k, v, to, lse, z);
}

void attention_grad_mma(cudaStream_t stream, Reals dout, Reals q, Reals k, Reals v, Reals lse, Reals dq, Reals dk,
                        Reals dv, const AttentionShape& z, const float* delta) {
  const auto both = [&](auto width) {
    constexpr int D = decltype(width)::value;
    backward<D, false>(stream, dout, q, k, v, lse, dq, dk, dv, z, delta);
    backward<D, true>(stream, dout, q, k, v, lse, dq, dk, dv, z, delta);
  };
  if (z.d == 64)
    both(std::integral_constant<int, 64>{});
  else
    both(std::integral_constant<int, 128>{});
}

}  // namespace rehearse::cuda
