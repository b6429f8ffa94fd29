// Attention in one pass (Dao et al. 2022): scores are never stored, backward makes them again from the log-sum-exp. A
// block is a part of the queries against the first of the keys; what it does not cover is written as if it were not
// there, and parts are merged (Liu et al. 2023).

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/index.hpp"
#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"

namespace rehearse {

namespace {

/// Whole operands, or of a block its queries, from `first` on, and keys.
template <class T>
struct FlashAttentionShapes {
  std::int64_t batch, queries, keys, heads, kv_heads, d, v;  // d: of queries and keys, v: of values
  std::int64_t query_rows, key_rows, first = 0;
  FlashAttentionShapes(const OperatorCall& c, const TensorView& q, const TensorView& k, const TensorView& values)
      : batch(q.extent(0)),
        queries(q.extent(1)),
        keys(k.extent(1)),
        heads(q.extent(2)),
        kv_heads(k.extent(2)),
        d(q.extent(3)),
        v(values.extent(3)),
        query_rows(queries),
        key_rows(keys) {
    if (c.offsets.empty()) return;
    queries = c.dims.at(3), keys = c.dims.at(4), first = c.offsets[0];
  }
  [[nodiscard]] bool whole() const { return queries == query_rows && keys == key_rows; }
  [[nodiscard]] std::int64_t kv(std::int64_t h) const { return h / (heads / kv_heads); }
  [[nodiscard]] std::int64_t lse(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return (b * query_rows + first + i) * heads + h;
  }
  [[nodiscard]] MatrixView<T> q(const TensorView& x, std::int64_t b, std::int64_t h, bool transposed = false) const {
    const std::int64_t width = x.extent(3);
    return {x.as<T>() + ((b * query_rows + first) * heads + h) * width, heads * width, transposed};
  }
  [[nodiscard]] MatrixView<T> k(const TensorView& x, std::int64_t b, std::int64_t h, bool transposed = false) const {
    const std::int64_t width = x.extent(3);
    return {x.as<T>() + (b * key_rows * kv_heads + kv(h)) * width, kv_heads * width, transposed};
  }
};

template <class T>
void clear(const TensorView& x, T value = T{0}) {
  std::fill_n(x.as<T>(), x.elements(), value);
}

/// What probabilities are multiplied by: 0 or 1 / (1 - p), as a function of (sample, head, query, key).
class DropoutOf {
 public:
  template <class T>
  DropoutOf(const OperatorCall& c, const TensorView& q, const TensorView& k, const FlashAttentionShapes<T>& z)
      : call_(c), q_(q), k_(k), first_(z.first), queries_(z.queries), keys_(z.keys), p_(c.task->probability) {}
  [[nodiscard]] bool on() const { return p_ > 0; }
  template <class T>
  void fill(std::vector<T>& out, std::int64_t b, std::int64_t h) const {
    const std::int64_t head =
        (call_.first_sample + q_.held->global_index(0, b)) * q_.held->shape[2] + q_.held->global_index(2, h);
    std::size_t at = 0;
    for (std::int64_t i = 0; i < queries_; ++i) {
      const std::int64_t row = head * q_.held->shape[1] + q_.held->global_index(1, first_ + i);
      for (std::int64_t j = 0; j < keys_; ++j, ++at) {
        const auto element = static_cast<std::uint64_t>(row * k_.held->shape[1] + k_.held->global_index(1, j));
        out[at] = call_.random.uniform(element) >= p_ ? static_cast<T>(1 / (1 - p_)) : T{0};
      }
    }
  }

 private:
  const OperatorCall& call_;
  const TensorView &q_, &k_;
  std::int64_t first_, queries_, keys_;
  double p_;
};

/// Keys that a query sees at most, up to its own; 0: all.
std::int64_t window_of(const OperatorCall& c) { return c.dims.size() > 6 ? c.dims[6] : 0; }

/// Scaled scores of one head, those of later keys and of keys before the window at -infinity.
template <class T>
void scores_of(const OperatorCall& c, const FlashAttentionShapes<T>& z, const TensorView& q, const TensorView& k,
               std::int64_t b, std::int64_t h, std::vector<T>& s) {
  gemm<T>(z.queries, z.keys, z.d, static_cast<T>(c.task->scalars.at(0)), z.q(q, b, h), z.k(k, b, h, true), 0, s.data(),
          z.keys);
  if (!c.task->causal) return;
  const std::int64_t window = window_of(c);
  for (std::int64_t i = 0; i < z.queries; ++i) {
    const std::int64_t query = q.held->global_index(1, z.first + i);
    std::int64_t j = 0;
    for (const Run& r : k.held->global[1])
      for (std::int64_t x = 0; x < r.length && j < z.keys; ++x, ++j)
        if (r.first + x > query || (window > 0 && query - (r.first + x) >= window))
          nth(s, i * z.keys + j) = -std::numeric_limits<T>::infinity();
  }
}

/// q, k, v, out, log-sum-exp [b, s, heads]; sinks, a score per head that stands beside the keys'. Operands after those
/// only order the call.
template <class T>
struct Forward {
  static void run(const OperatorCall& c) { run(c, nullptr); }
  static void run(const OperatorCall& c, const T* sinks) {
    const TensorView &q = c.operand(0), &k = c.operand(1), &v = c.operand(2), &out = c.operand(3), &lse = c.operand(4);
    const FlashAttentionShapes<T> z(c, q, k, v);
    const DropoutOf dropout(c, q, k, z);
    if (!z.whole()) {
      clear<T>(out);
      clear<T>(lse, -std::numeric_limits<T>::infinity());
    }
    std::vector<T> s(static_cast<std::size_t>(z.queries * z.keys)), keep(dropout.on() ? s.size() : 0);
    for (std::int64_t b = 0; b < z.batch; ++b) {
      for (std::int64_t h = 0; h < z.heads; ++h) {
        scores_of(c, z, q, k, b, h, s);
        for (std::int64_t i = 0; i < z.queries; ++i)
          lse.as<T>()[z.lse(b, i, h)] = normalise(s.data() + i * z.keys, z.keys,
                                                  sinks == nullptr ? -std::numeric_limits<T>::infinity() : sinks[h]);
        if (dropout.on()) {
          dropout.fill(keep, b, h);
          for (std::size_t i = 0; i < s.size(); ++i) s[i] *= keep[i];
        }
        gemm<T>(z.queries, z.v, z.keys, 1, {s.data(), z.keys}, z.k(v, b, h), 0, const_cast<T*>(z.q(out, b, h).data),
                z.heads * z.v);
      }
    }
  }
  /// Softmax of a row and its sink in place; its log-sum-exp.
  static T normalise(T* row, std::int64_t n, T sink) {
    T max = std::max(row[0], sink);
    for (std::int64_t j = 1; j < n; ++j) max = std::max(max, row[j]);
    T sum = std::exp(sink - max);
    for (std::int64_t j = 0; j < n; ++j) sum += row[j] = std::exp(row[j] - max);
    for (std::int64_t j = 0; j < n; ++j) row[j] /= sum;
    return max + std::log(sum);
  }
};

/// output gradient, q, k, v, out, log-sum-exp; gradients of q, k, v; sinks, their gradient (added to). Operands after
/// those only order the call.
template <class T>
struct Backward {
  static void run(const OperatorCall& c) { run(c, nullptr, nullptr); }
  static void run(const OperatorCall& c, const T* sinks, T* dsinks) {
    const TensorView &dout = c.operand(0), &q = c.operand(1), &k = c.operand(2), &v = c.operand(3), &out = c.operand(4),
                     &lse = c.operand(5);
    const FlashAttentionShapes<T> z(c, q, k, v);
    const DropoutOf dropout(c, q, k, z);
    if (!z.whole())
      for (std::size_t i = 6; i < 9; ++i) clear<T>(c.operand(i));
    std::vector<T> p(static_cast<std::size_t>(z.queries * z.keys)), dropped(p.size()), dp(p.size()),
        keep(dropout.on() ? p.size() : 0);
    for (std::int64_t b = 0; b < z.batch; ++b) {
      for (std::int64_t h = 0; h < z.heads; ++h) {
        scores_of(c, z, q, k, b, h, p);
        for (std::int64_t i = 0; i < z.queries; ++i)
          for (std::int64_t j = 0; j < z.keys; ++j) {
            T& x = nth(p, i * z.keys + j);
            x = std::exp(x - lse.as<T>()[z.lse(b, i, h)]);
          }
        dropped = p;
        gemm<T>(z.queries, z.keys, z.v, 1, z.q(dout, b, h), z.k(v, b, h, true), 0, dp.data(), z.keys);
        if (dropout.on()) {
          dropout.fill(keep, b, h);
          for (std::size_t i = 0; i < p.size(); ++i) dropped[i] *= keep[i], dp[i] *= keep[i];
        }
        const std::vector<T> dots = through_softmax(c, z, z.q(dout, b, h), z.q(out, b, h), p, dp);
        // A sink's probability times 0 less what softmax takes off every score; it has no value of its own.
        for (std::int64_t i = 0; sinks != nullptr && i < z.queries; ++i)
          dsinks[h] -= std::exp(sinks[h] - lse.as<T>()[z.lse(b, i, h)]) * nth(dots, i);
        // Heads that share a key head add to its gradients after the first.
        const T beta = h % (z.heads / z.kv_heads) == 0 ? T{0} : T{1};
        const std::int64_t wide = z.heads * z.d, narrow = z.kv_heads * z.d;
        gemm<T>(z.queries, z.d, z.keys, 1, {dp.data(), z.keys}, z.k(k, b, h), 0,
                const_cast<T*>(z.q(c.operand(6), b, h).data), wide);
        gemm<T>(z.keys, z.d, z.queries, 1, {dp.data(), z.keys, true}, z.q(q, b, h), beta,
                const_cast<T*>(z.k(c.operand(7), b, h).data), narrow);
        gemm<T>(z.keys, z.v, z.queries, 1, {dropped.data(), z.keys, true}, z.q(dout, b, h), beta,
                const_cast<T*>(z.k(c.operand(8), b, h).data), z.kv_heads * z.v);
      }
    }
  }
  /// dS = scale * P * (dP - rowsum(dO * O)), in place of dP; those sums.
  static std::vector<T> through_softmax(const OperatorCall& c, const FlashAttentionShapes<T>& z,
                                        const MatrixView<T>& dout, const MatrixView<T>& out, const std::vector<T>& p,
                                        std::vector<T>& dp) {
    const T scale = static_cast<T>(c.task->scalars.at(0));
    std::vector<T> dots;
    for (std::int64_t i = 0; i < z.queries; ++i) {
      T dot{0};
      for (std::int64_t x = 0; x < z.v; ++x) dot += dout.data[i * dout.stride + x] * out.data[i * out.stride + x];
      for (std::int64_t j = 0; j < z.keys; ++j) {
        const auto at = static_cast<std::size_t>(i * z.keys + j);
        dp[at] = scale * p[at] * (dp[at] - dot);
      }
      dots.push_back(dot);
    }
    return dots;
  }
};

template <class T>
struct SinkForward {
  static void run(const OperatorCall& c) { Forward<T>::run(c, c.operand(5).as<T>()); }
};
template <class T>
struct SinkBackward {
  static void run(const OperatorCall& c) { Backward<T>::run(c, c.operand(9).as<T>(), c.operand(10).as<T>()); }
};

/// out and log-sum-exp so far (updated); those of a further block of keys.
template <class T>
struct Merge {
  static void run(const OperatorCall& c) {
    const TensorView &out = c.operand(0), &lse = c.operand(1), &more = c.operand(2), &more_lse = c.operand(3);
    const std::int64_t width = out.extent(3);
    for (std::int64_t r = 0; r < lse.elements(); ++r) {
      const T a = lse.as<T>()[r], b = more_lse.as<T>()[r], top = std::max(a, b);
      const T sum = top + std::log(std::exp(a - top) + std::exp(b - top));
      const T wa = std::exp(a - sum), wb = std::exp(b - sum);
      for (std::int64_t i = r * width; i < (r + 1) * width; ++i)
        out.as<T>()[i] = wa * out.as<T>()[i] + wb * more.as<T>()[i];
      lse.as<T>()[r] = sum;
    }
  }
};

[[maybe_unused]] const bool registered_flash_attention =
    cpu_operators().add({"attention_merge", "joins attention over two sets of keys", {}, both<Merge>()}) &&
    cpu_operators().add({"attention.flash_block", "attention of some queries to some keys", {}, both<Forward>()}) &&
    cpu_operators().add({"attention_grad.flash_block", "its gradients", {}, both<Backward>()}) &&
    cpu_operators().add({"attention.flash", "attention without stored scores", {}, both<Forward>()}) &&
    cpu_operators().add({"attention_grad.flash", "its gradients", {}, both<Backward>()}) &&
    cpu_operators().add({"attention.flash_window", "the same to keys in a window", {}, both<Forward>()}) &&
    cpu_operators().add({"attention_grad.flash_window", "its gradients", {}, both<Backward>()}) &&
    cpu_operators().add({"attention.flash_sinks",
                         "the same with a learned score per head beside the keys'",
                         {},
                         both<SinkForward>()}) &&
    cpu_operators().add({"attention_grad.flash_sinks", "its gradients", {}, both<SinkBackward>()}) &&
    cpu_operators().add({"attention.flash_window_sinks", "both", {}, both<SinkForward>()}) &&
    cpu_operators().add({"attention_grad.flash_window_sinks", "its gradients", {}, both<SinkBackward>()});

}  // namespace

}  // namespace rehearse
