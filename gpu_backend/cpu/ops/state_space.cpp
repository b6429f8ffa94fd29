// The mixer of Mamba-2 (Dao and Gu 2024, sec. 7) between its projections: convolution, steps and recurrence as
// OpKind::state_space has them. It is the plain recurrence, token by token, and not the products over chunks of the
// paper's kernels, which prices are of. Chunks only say where backward keeps states: it makes those between them again.

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/index.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/ops/curves.hpp"

namespace rehearse {

namespace {

template <class T>
T silu(T x) {
  return x * sigmoid(x);
}
template <class T>
T silu_slope(T x) {
  return sigmoid(x) * (T{1} + x * (T{1} - sigmoid(x)));
}
/// log(1 + e^x), of which large x leave x.
template <class T>
T softplus(T x) {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
}

struct Sizes {
  std::int64_t batch, tokens, heads, head_dim, groups, state, window, chunk;
  explicit Sizes(const OperatorCall& c)
      : batch(c.dims.at(0)),
        tokens(c.dims.at(1)),
        heads(c.dims.at(2)),
        head_dim(c.dims.at(3)),
        groups(c.dims.at(4)),
        state(c.dims.at(5)),
        window(c.dims.at(6)),
        chunk(std::clamp<std::int64_t>(c.dims.at(7), 1, std::max<std::int64_t>(tokens, 1))) {}
  [[nodiscard]] std::int64_t inner() const { return heads * head_dim; }
  [[nodiscard]] std::int64_t shared() const { return groups * state; }
  [[nodiscard]] std::int64_t channels() const { return inner() + 2 * shared(); }
  [[nodiscard]] std::int64_t group(std::int64_t head) const { return head * groups / heads; }
  /// Elements of one head's state.
  [[nodiscard]] std::int64_t square() const { return head_dim * state; }
};

/// The channels of the convolution as they are stored: x's, then b's, then c's. V: T, or const T.
template <class V>
struct Channels {
  V *x, *b, *c;
  V& at(const Sizes& z, std::int64_t row, std::int64_t channel) const {
    if (channel < z.inner()) return x[row * z.inner() + channel];
    channel -= z.inner();
    return channel < z.shared() ? b[row * z.shared() + channel] : c[row * z.shared() + channel - z.shared()];
  }
};

/// What is read: operands from `first` on.
template <class T>
struct Inputs {
  const T* z;
  Channels<const T> in;
  const T *dt, *weight, *bias, *a_log, *d, *dt_bias;
  Inputs(const OperatorCall& c, std::size_t first) {
    const auto at = [&](std::size_t i) { return c.operand(first + i).template as<T>(); };
    z = at(0), in = {at(1), at(2), at(3)}, dt = at(4), weight = at(5), bias = at(6), a_log = at(7), d = at(8),
    dt_bias = at(9);
  }
};

template <class T>
T dot(const T* a, const T* b, std::int64_t n) {
  T sum{0};
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// One sample: what the recurrence of its heads reads.
template <class T>
class Sample {
 public:
  Sample(const Sizes& z, const Inputs<T>& in, std::int64_t number)
      : z_(z), in_(in), first_(number * z.tokens), mixed_(static_cast<std::size_t>(z.tokens * z.channels())) {
    for (std::int64_t t = 0; t < z.tokens; ++t)
      for (std::int64_t ch = 0; ch < z.channels(); ++ch) mixed_[at(t, ch)] = silu(convolved(t, ch));
  }

  /// Row of token t in what is stored for all samples.
  [[nodiscard]] std::int64_t row(std::int64_t t) const { return first_ + t; }
  /// Before SiLU.
  [[nodiscard]] T convolved(std::int64_t t, std::int64_t ch) const {
    T sum = in_.bias[ch];
    for (std::int64_t i = std::max<std::int64_t>(0, z_.window - 1 - t); i < z_.window; ++i)
      sum += in_.weight[ch * z_.window + i] * in_.in.at(z_, row(t - z_.window + 1 + i), ch);
    return sum;
  }
  [[nodiscard]] std::size_t at(std::int64_t t, std::int64_t ch) const {
    return static_cast<std::size_t>(t * z_.channels() + ch);
  }
  [[nodiscard]] std::int64_t first_x(std::int64_t head) const { return head * z_.head_dim; }
  [[nodiscard]] std::int64_t first_b(std::int64_t head) const { return z_.inner() + z_.group(head) * z_.state; }
  [[nodiscard]] std::int64_t first_c(std::int64_t head) const { return first_b(head) + z_.shared(); }
  [[nodiscard]] const T* x(std::int64_t t, std::int64_t head) const { return &mixed_[at(t, first_x(head))]; }
  [[nodiscard]] const T* b(std::int64_t t, std::int64_t head) const { return &mixed_[at(t, first_b(head))]; }
  [[nodiscard]] const T* c(std::int64_t t, std::int64_t head) const { return &mixed_[at(t, first_c(head))]; }
  [[nodiscard]] T raw_step(std::int64_t t, std::int64_t head) const {
    return in_.dt[row(t) * z_.heads + head] + in_.dt_bias[head];
  }
  [[nodiscard]] T step(std::int64_t t, std::int64_t head) const { return softplus(raw_step(t, head)); }
  [[nodiscard]] T rate(std::int64_t head) const { return std::exp(in_.a_log[head]); }
  [[nodiscard]] T decay(std::int64_t t, std::int64_t head) const { return std::exp(-rate(head) * step(t, head)); }

  /// h [head_dim, state] after token t from that before it.
  void advance(T* h, std::int64_t t, std::int64_t head) const {
    const T keeps = decay(t, head), adds = step(t, head);
    for (std::int64_t p = 0; p < z_.head_dim; ++p)
      for (std::int64_t n = 0; n < z_.state; ++n)
        h[p * z_.state + n] = keeps * h[p * z_.state + n] + adds * x(t, head)[p] * b(t, head)[n];
  }

 private:
  const Sizes& z_;
  const Inputs<T>& in_;
  std::int64_t first_;
  std::vector<T> mixed_;  ///< [tokens, channels], past the convolution and SiLU.
};

/// z, x, b, c, dt, convolution's weight and bias, a_log, d, dt_bias, y
template <class T>
struct StateSpace {
  static void run(const OperatorCall& c) {
    const Sizes z(c);
    const Inputs<T> in(c, 0);
    T* y = c.operand(10).as<T>();
    std::vector<T> h(static_cast<std::size_t>(z.square()));
    for (std::int64_t number = 0; number < z.batch; ++number) {
      const Sample<T> sample(z, in, number);
      for (std::int64_t head = 0; head < z.heads; ++head) {
        std::fill(h.begin(), h.end(), T{0});
        for (std::int64_t t = 0; t < z.tokens; ++t) {
          sample.advance(h.data(), t, head);
          for (std::int64_t p = 0; p < z.head_dim; ++p) {
            const std::int64_t i = sample.row(t) * z.inner() + head * z.head_dim + p;
            y[i] = (dot(&nth(h, p * z.state), sample.c(t, head), z.state) + in.d[head] * sample.x(t, head)[p]) *
                   silu(in.z[i]);
          }
        }
      }
    }
  }
};

/// dy, what is read forward, gradients of z, x, b, c, dt; where the task accumulates, then those of convolution's
/// weight and bias, a_log, d, dt_bias
template <class T>
class StateSpaceGrad {
 public:
  static void run(const OperatorCall& c) {
    StateSpaceGrad grad(c);
    for (std::int64_t number = 0; number < grad.z_.batch; ++number)
      grad.of_sample(Sample<T>(grad.z_, grad.in_, number));
  }

 private:
  explicit StateSpaceGrad(const OperatorCall& c) : z_(c), in_(c, 1), dy_(c.operand(0).as<T>()) {
    const auto at = [&](std::size_t i) { return c.operand(i).template as<T>(); };
    dz_ = at(11), din_ = {at(12), at(13), at(14)}, ddt_ = at(15);
    if (c.task->accumulates) dweight_ = at(16), dbias_ = at(17), da_log_ = at(18), dd_ = at(19), ddt_bias_ = at(20);
  }

  void of_sample(const Sample<T>& s) {
    dmixed_.assign(static_cast<std::size_t>(z_.tokens * z_.channels()), T{0});
    for (std::int64_t head = 0; head < z_.heads; ++head) of_head(s, head);
    of_convolution(s);
  }

  void of_head(const Sample<T>& s, std::int64_t head) {
    const std::int64_t square = z_.square(), chunks = (z_.tokens + z_.chunk - 1) / z_.chunk;
    std::vector<T> starts(static_cast<std::size_t>(chunks * square)), h(static_cast<std::size_t>(square)),
        inside(static_cast<std::size_t>((z_.chunk + 1) * square));
    for (std::int64_t t = 0; t < z_.tokens; ++t) {
      if (t % z_.chunk == 0) std::copy(h.begin(), h.end(), starts.begin() + t / z_.chunk * square);
      s.advance(h.data(), t, head);
    }
    std::vector<T> dh(static_cast<std::size_t>(square));  // Of the state after the token, by what follows it.
    for (std::int64_t chunk = chunks; chunk-- > 0;) {
      const std::int64_t first = chunk * z_.chunk, last = std::min(z_.tokens, first + z_.chunk);
      std::copy_n(starts.begin() + chunk * square, square, inside.begin());
      for (std::int64_t t = first; t < last; ++t) {
        T* after = inside.data() + (t - first + 1) * square;
        std::copy_n(after - square, square, after);
        s.advance(after, t, head);
      }
      for (std::int64_t t = last; t-- > first;) of_token(s, t, head, inside.data() + (t - first) * square, dh.data());
    }
  }

  /// `before`: the state before the token; that after it follows.
  void of_token(const Sample<T>& s, std::int64_t t, std::int64_t head, const T* before, T* dh) {
    const T *after = before + z_.square(), *x = s.x(t, head), *b = s.b(t, head), *c = s.c(t, head);
    T *dx = &dmixed_[s.at(t, s.first_x(head))], *db = &dmixed_[s.at(t, s.first_b(head))],
      *dc = &dmixed_[s.at(t, s.first_c(head))];
    const T step = s.step(t, head), decay = s.decay(t, head), d = in_.d[head];
    T by_step{0}, by_decay{0}, by_d{0};
    for (std::int64_t p = 0; p < z_.head_dim; ++p) {
      const std::int64_t i = s.row(t) * z_.inner() + head * z_.head_dim + p, first = p * z_.state;
      const T flow = dy_[i] * silu(in_.z[i]);  // Of what the gate multiplies.
      dz_[i] = dy_[i] * (dot(after + first, c, z_.state) + d * x[p]) * silu_slope(in_.z[i]);
      T along{0};
      for (std::int64_t n = 0; n < z_.state; ++n) {
        T& g = dh[first + n];
        g += flow * c[n];
        dc[n] += flow * after[first + n];
        db[n] += step * g * x[p];
        along += g * b[n];
        by_decay += g * before[first + n];
        g *= decay;
      }
      dx[p] = step * along + d * flow;
      by_step += along * x[p];
      by_d += flow * x[p];
    }
    const T by_exponent = by_decay * decay, rate = s.rate(head),
            by_raw = (by_step - rate * by_exponent) * sigmoid(s.raw_step(t, head));
    ddt_[s.row(t) * z_.heads + head] = by_raw;
    if (dweight_ == nullptr) return;
    da_log_[head] -= by_exponent * step * rate;
    dd_[head] += by_d;
    ddt_bias_[head] += by_raw;
  }

  void of_convolution(const Sample<T>& s) {
    for (std::int64_t t = 0; t < z_.tokens; ++t)
      for (std::int64_t ch = 0; ch < z_.channels(); ++ch) dmixed_[s.at(t, ch)] *= silu_slope(s.convolved(t, ch));
    for (std::int64_t t = 0; t < z_.tokens; ++t) {
      for (std::int64_t ch = 0; ch < z_.channels(); ++ch) {
        T sum{0};
        for (std::int64_t i = std::max<std::int64_t>(0, z_.window - z_.tokens + t); i < z_.window; ++i)
          sum += in_.weight[ch * z_.window + i] * dmixed_[s.at(t + z_.window - 1 - i, ch)];
        din_.at(z_, s.row(t), ch) = sum;
        if (dweight_ == nullptr) continue;
        const T du = dmixed_[s.at(t, ch)];
        dbias_[ch] += du;
        for (std::int64_t i = std::max<std::int64_t>(0, z_.window - 1 - t); i < z_.window; ++i)
          dweight_[ch * z_.window + i] += du * in_.in.at(z_, s.row(t - z_.window + 1 + i), ch);
      }
    }
  }

  Sizes z_;
  Inputs<T> in_;
  const T* dy_;
  T* dz_;
  Channels<T> din_;
  T *ddt_, *dweight_ = nullptr, *dbias_ = nullptr, *da_log_ = nullptr, *dd_ = nullptr, *ddt_bias_ = nullptr;
  /// Of the convolution's result past SiLU, then before it; [tokens, channels] of one sample.
  std::vector<T> dmixed_;
};

[[maybe_unused]] const bool registered_state_space =
    cpu_operators().add({"state_space", "convolution, gate and recurrence of Mamba-2", {}, both<StateSpace>()}) &&
    cpu_operators().add({"state_space_grad", "its gradients", {}, both<StateSpaceGrad>()});

}  // namespace

}  // namespace rehearse
