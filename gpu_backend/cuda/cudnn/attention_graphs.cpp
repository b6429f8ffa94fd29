#include "gpu_backend/cuda/cudnn/attention_graphs.hpp"

namespace rehearse::cuda {

namespace {

constexpr cudnnDataType_t kReal = CUDNN_DATA_FLOAT, kHalf = CUDNN_DATA_BFLOAT16;

/// A tensor [batch, rows, heads, width] in memory as cuDNN sees it: [batch, heads, rows, width].
CudnnShape rows_of_heads(std::int64_t batch, std::int64_t rows, std::int64_t heads, std::int64_t width,
                         std::int64_t apart = 0) {
  if (apart == 0) apart = heads * width;
  return {{batch, heads, rows, width}, {rows * apart, width, apart, 1}};
}

struct Shapes {
  explicit Shapes(const FusedAttentionShape& z)
      : q(rows_of_heads(z.batch, z.queries, z.heads, z.d, z.apart.q)),
        k(rows_of_heads(z.batch, z.keys, z.kv_heads, z.d, z.apart.k)),
        v(rows_of_heads(z.batch, z.keys, z.kv_heads, z.v, z.apart.v)),
        dq(rows_of_heads(z.batch, z.queries, z.heads, z.d, z.apart.dq)),
        dk(rows_of_heads(z.batch, z.keys, z.kv_heads, z.d, z.apart.dk)),
        dv(rows_of_heads(z.batch, z.keys, z.kv_heads, z.v, z.apart.dv)),
        out(rows_of_heads(z.batch, z.queries, z.heads, z.v)),
        lse(rows_of_heads(z.batch, z.queries, z.heads, 1)),
        scores(packed(z.batch, z.heads, z.queries, z.keys)),
        per_query(packed(z.batch, z.heads, z.queries, 1)) {
    lse.strides = {z.queries * z.heads, 1, z.heads, 1};
  }
  CudnnShape q, k, v, dq, dk, dv, out, lse, scores, per_query;
};

/// Scores of later keys replaced, and of those before the window. One selection for each of the two, comparisons this
/// way round: the form that the fused kernels are found by.
CudnnTensorPtr masked(CudnnGraph& g, CudnnTensorPtr scores, std::int64_t window) {
  CudnnTensorPtr row = g.index(scores, 2), column = g.index(scores, 3),
                 seen = g.between(CUDNN_DATA_BOOLEAN, scores->shape());
  g.pointwise(CUDNN_POINTWISE_CMP_GE, {row, column}, seen, CUDNN_DATA_BOOLEAN);
  scores = g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, {scores, g.number(kFusedNothing), seen});
  if (window == 0) return scores;
  row = g.index(scores, 2), column = g.index(scores, 3);
  CudnnTensorPtr end = g.pointwise(CUDNN_POINTWISE_ADD, {column, g.number(kFusedWindow)}),
                 inside = g.between(CUDNN_DATA_BOOLEAN, scores->shape());
  g.pointwise(CUDNN_POINTWISE_CMP_GT, {end, row}, inside, CUDNN_DATA_BOOLEAN);
  return g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, {scores, g.number(kFusedOutside), inside});
}

}  // namespace

std::unique_ptr<CudnnGraph> fused_attention_graph(const FusedAttentionShape& z) {
  auto out = std::make_unique<CudnnGraph>();
  CudnnGraph& g = *out;
  const Shapes shapes(z);
  CudnnTensorPtr q = g.stored(kFusedQ, kHalf, shapes.q), k = g.stored(kFusedK, kHalf, transposed(shapes.k)),
                 products = g.between(kReal, shapes.scores);
  g.matmul(q, k, products);
  CudnnTensorPtr scores = g.pointwise(CUDNN_POINTWISE_MUL, {products, g.number(kFusedScale)});
  if (z.causal) scores = masked(g, scores, z.window);
  CudnnTensorPtr largest = g.between(kReal, shapes.per_query), sum = g.between(kReal, shapes.per_query),
                 log = g.between(kReal, shapes.per_query), probabilities = g.between(kHalf, shapes.scores);
  g.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  CudnnTensorPtr exponentials = g.pointwise(CUDNN_POINTWISE_EXP, {g.pointwise(CUDNN_POINTWISE_SUB, {scores, largest})});
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
  g.pointwise(CUDNN_POINTWISE_LOG, {sum}, log);
  g.pointwise(CUDNN_POINTWISE_ADD, {largest, log}, g.stored(kFusedLse, kReal, shapes.lse));
  g.pointwise(CUDNN_POINTWISE_DIV, {exponentials, sum}, probabilities);
  g.matmul(probabilities, g.stored(kFusedV, kHalf, shapes.v), g.stored(kFusedOut, kHalf, shapes.out));
  return out;
}

std::unique_ptr<CudnnGraph> fused_attention_grad_graph(const FusedAttentionShape& z, bool deterministic) {
  auto out = std::make_unique<CudnnGraph>();
  CudnnGraph& g = *out;
  const Shapes shapes(z);
  const CudnnShape by_key = {{z.batch, z.heads, z.keys, z.queries},
                             {z.heads * z.queries * z.keys, z.queries * z.keys, 1, z.keys}};
  CudnnTensorPtr q = g.stored(kFusedQ, kHalf, shapes.q), k = g.stored(kFusedK, kHalf, transposed(shapes.k)),
                 v = g.stored(kFusedV, kHalf, transposed(shapes.v)), result = g.stored(kFusedOut, kHalf, shapes.out),
                 dout = g.stored(kFusedDout, kHalf, shapes.out), lse = g.stored(kFusedLse, kReal, shapes.lse),
                 scale = g.number(kFusedScale);
  // A gradient over heads that share keys is that of every head, added up.
  const auto over_shared_heads = [&](CudnnTensorPtr a, CudnnTensorPtr b, std::int64_t width, CudnnTensorPtr to) {
    if (z.heads == z.kv_heads) return g.matmul(a, b, to);
    CudnnTensorPtr of_heads = g.between(kHalf, packed(z.batch, z.heads, z.keys, width));
    g.matmul(a, b, of_heads);
    g.reduce(CUDNN_REDUCE_TENSOR_ADD, of_heads, to);
  };

  CudnnTensorPtr sums = g.between(kReal, shapes.per_query), delta = g.stored(kFusedDelta, kReal, shapes.per_query);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, g.pointwise(CUDNN_POINTWISE_MUL, {dout, result}), sums);
  g.pointwise(CUDNN_POINTWISE_MUL, {sums, g.number(kFusedOne)}, delta);

  CudnnTensorPtr products = g.between(kReal, shapes.scores);
  g.matmul(q, k, products);
  CudnnTensorPtr scores = g.pointwise(CUDNN_POINTWISE_SUB, {g.pointwise(CUDNN_POINTWISE_MUL, {products, scale}), lse});
  if (z.causal) scores = masked(g, scores, z.window);
  CudnnTensorPtr probabilities = g.pointwise(CUDNN_POINTWISE_EXP, {scores});
  over_shared_heads(g.view(probabilities, kHalf, by_key), dout, z.v, g.stored(kFusedDv, kHalf, shapes.dv));

  CudnnTensorPtr dprobabilities = g.between(kReal, shapes.scores);
  g.matmul(dout, v, dprobabilities);
  CudnnTensorPtr dscores =
      g.pointwise(CUDNN_POINTWISE_MUL, {g.pointwise(CUDNN_POINTWISE_SUB, {dprobabilities, delta}), probabilities});
  dscores = g.pointwise(CUDNN_POINTWISE_MUL, {dscores, scale});
  over_shared_heads(g.view(dscores, kHalf, by_key), q, z.d, g.stored(kFusedDk, kHalf, shapes.dk));

  CudnnTensorPtr keys = g.view(k, kHalf, shapes.k), dq = g.stored(kFusedDq, kHalf, shapes.dq);
  if (deterministic) {
    g.matmul(dscores, keys, dq);
  } else {
    CudnnTensorPtr sum = g.stored(kFusedDqSum, kReal, packed(z.batch, z.heads, z.queries, z.d));
    g.matmul(dscores, keys, sum);
    g.pointwise(CUDNN_POINTWISE_IDENTITY, {sum}, dq);
  }
  return out;
}

}  // namespace rehearse::cuda
