// Attention in pieces, as eager frameworks run it: scores, softmax, context and their gradients. q, k, v, out are [b,
// s, heads, d], scores [b, heads, s, s]. Query heads share key heads in groups of equal size.

#include <cmath>
#include <limits>

#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"

namespace rehearse {

namespace {

/// One head of a [b, s, heads, d] tensor as a matrix [s, d].
template <class T>
MatrixView<T> head(const TensorView& x, std::int64_t b, std::int64_t h, bool transposed = false) {
  const std::int64_t d = x.extent(3), stride = x.extent(2) * d;
  return {x.as<T>() + b * x.extent(1) * stride + h * d, stride, transposed};
}
/// One head of scores [b, heads, s, s].
template <class T>
MatrixView<T> square(const TensorView& p, std::int64_t b, std::int64_t h, bool transposed = false) {
  return {p.as<T>() + (b * p.extent(1) + h) * p.extent(2) * p.extent(3), p.extent(3), transposed};
}
template <class T>
T* writable(const MatrixView<T>& m) {
  return const_cast<T*>(m.data);
}

/// For every head: the product of two heads or squares into a third, whose heads are `shared` among groups (added to
/// after the first).
template <class T, class A, class B, class C>
void every_head(const TensorView& scores, std::int64_t kv_heads, std::int64_t m, std::int64_t n, std::int64_t k, A a,
                B b, C c, bool shared) {
  const std::int64_t heads = scores.extent(1), group = heads / kv_heads;
  for (std::int64_t i = 0; i < scores.extent(0); ++i)
    for (std::int64_t h = 0; h < heads; ++h) {
      const MatrixView<T> out = c(i, h, h / group);
      gemm<T>(m, n, k, 1, a(i, h, h / group), b(i, h, h / group), shared && h % group != 0 ? T{1} : T{0}, writable(out),
              out.stride);
    }
}

/// q, k, scores
template <class T>
struct Scores {
  static void run(const OperatorCall& c) {
    const TensorView &q = c.operand(0), &k = c.operand(1), &s = c.operand(2);
    every_head<T>(
        s, k.extent(2), s.extent(2), s.extent(3), q.extent(3), [&](auto b, auto h, auto) { return head<T>(q, b, h); },
        [&](auto b, auto, auto g) { return head<T>(k, b, g, true); },
        [&](auto b, auto h, auto) { return square<T>(s, b, h); }, false);
  }
};
/// probabilities, v, out
template <class T>
struct Context {
  static void run(const OperatorCall& c) {
    const TensorView &p = c.operand(0), &v = c.operand(1), &out = c.operand(2);
    every_head<T>(
        p, v.extent(2), p.extent(2), out.extent(3), p.extent(3),
        [&](auto b, auto h, auto) { return square<T>(p, b, h); },
        [&](auto b, auto, auto g) { return head<T>(v, b, g); },
        [&](auto b, auto h, auto) { return head<T>(out, b, h); }, false);
  }
};
/// probabilities, output gradient, gradient of v; or scores gradient, q, gradient of k: the transposed square times a
/// head.
template <class T>
struct KeyValueGrad {
  static void run(const OperatorCall& c) {
    const TensorView &p = c.operand(0), &x = c.operand(1), &out = c.operand(2);
    every_head<T>(
        p, out.extent(2), p.extent(3), out.extent(3), p.extent(2),
        [&](auto b, auto h, auto) { return square<T>(p, b, h, true); },
        [&](auto b, auto h, auto) { return head<T>(x, b, h); },
        [&](auto b, auto, auto g) { return head<T>(out, b, g); }, true);
  }
};

/// scores; softmax of scale * scores over keys that are not later than the query, where causal.
template <class T>
void mask_row(T* row, const Runs& keys, std::int64_t query) {
  std::int64_t j = 0;
  for (const Run& r : keys)
    for (std::int64_t i = 0; i < r.length; ++i, ++j)
      if (r.first + i > query) row[j] = -std::numeric_limits<T>::infinity();
}

template <class T>
void softmax_row(T* row, std::int64_t n) {
  T max = row[0];
  for (std::int64_t j = 1; j < n; ++j) max = std::max(max, row[j]);
  T sum{0};
  for (std::int64_t j = 0; j < n; ++j) sum += row[j] = std::exp(row[j] - max);
  for (std::int64_t j = 0; j < n; ++j) row[j] /= sum;
}

/// scores, probabilities
template <class T>
struct Softmax {
  static void run(const OperatorCall& c) {
    const TensorView &s = c.operand(0), &p = c.operand(1);
    const std::int64_t n = s.extent(3), queries = s.extent(2);
    const T scale = static_cast<T>(c.task->scalars.at(0));
    for (std::int64_t r = 0; r < s.elements() / n; ++r) {
      T* row = p.as<T>() + r * n;
      for (std::int64_t j = 0; j < n; ++j) row[j] = scale * s.as<T>()[r * n + j];
      if (c.task->causal) mask_row(row, s.held->global[3], s.held->global_index(2, r % queries));
      softmax_row(row, n);
    }
  }
};
/// probabilities, their gradient, gradient of the scores
template <class T>
struct SoftmaxGrad {
  static void run(const OperatorCall& c) {
    const TensorView &p = c.operand(0), &dp = c.operand(1), &ds = c.operand(2);
    const std::int64_t n = p.extent(3);
    const T scale = static_cast<T>(c.task->scalars.at(0));
    for (std::int64_t r = 0; r < p.elements() / n; ++r) {
      const T *prob = p.as<T>() + r * n, *grad = dp.as<T>() + r * n;
      T dot{0};
      for (std::int64_t j = 0; j < n; ++j) dot += prob[j] * grad[j];
      for (std::int64_t j = 0; j < n; ++j) ds.as<T>()[r * n + j] = scale * prob[j] * (grad[j] - dot);
    }
  }
};

/// scores, in place
template <class T>
struct Scale {
  static void run(const OperatorCall& c) {
    const TensorView& s = c.operand(0);
    for (std::int64_t i = 0; i < s.elements(); ++i) s.as<T>()[i] *= static_cast<T>(c.task->scalars.at(0));
  }
};
template <class T>
struct Mask {
  static void run(const OperatorCall& c) {
    const TensorView& s = c.operand(0);
    const std::int64_t n = s.extent(3), queries = s.extent(2);
    for (std::int64_t r = 0; c.task->causal && r < s.elements() / n; ++r)
      mask_row(s.as<T>() + r * n, s.held->global[3], s.held->global_index(2, r % queries));
  }
};

/// output gradient, v, gradient of the probabilities
template <class T>
struct ProbabilitiesGrad : Scores<T> {};
/// scores gradient, k, gradient of q
template <class T>
struct QueryGrad : Context<T> {};

[[maybe_unused]] const bool registered_attention =
    cpu_operators().add({"matmul.scores", "queries times keys", {}, both<Scores>()}) &&
    cpu_operators().add({"matmul.context", "probabilities times values", {}, both<Context>()}) &&
    cpu_operators().add({"matmul.v_grad", "gradient of the values", {}, both<KeyValueGrad>()}) &&
    cpu_operators().add({"matmul.k_grad", "gradient of the keys", {}, both<KeyValueGrad>()}) &&
    cpu_operators().add({"matmul.q_grad", "gradient of the queries", {}, both<QueryGrad>()}) &&
    cpu_operators().add(
        {"matmul.probabilities_grad", "gradient of the probabilities", {}, both<ProbabilitiesGrad>()}) &&
    cpu_operators().add({"softmax", "scaled, masked softmax over keys", {}, both<Softmax>()}) &&
    cpu_operators().add({"softmax_grad", "gradient of the scores", {}, both<SoftmaxGrad>()}) &&
    cpu_operators().add({"scale.scale", "scores times 1 / sqrt(d)", {}, both<Scale>()}) &&
    cpu_operators().add({"scale.unscale", "gradients over the loss scale", {}, both<Scale>()}) &&
    cpu_operators().add({"scale.mask", "scores of later keys become -infinity", {}, both<Mask>()});

}  // namespace

}  // namespace rehearse
