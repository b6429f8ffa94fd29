// Operators of layers with state-space mixers: the mixer itself, the norm over runs after it and the experts' squared
// ReLU.

#include "core/base/index.hpp"
#include "tests/unit/executor/gradient_check.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

struct Mixer {
  std::int64_t batch, tokens, heads, head_dim, groups, state, window, chunk;
  [[nodiscard]] std::int64_t channels() const { return heads * head_dim + 2 * groups * state; }
  [[nodiscard]] std::vector<std::int64_t> dims() const {
    return {batch, tokens, heads, head_dim, groups, state, window, chunk};
  }
  [[nodiscard]] Array output() const { return reals({batch, tokens, heads, head_dim}); }
};
/// Seven tokens in chunks of three: two whole ones and a rest. Heads share b and c.
constexpr Mixer kMixer{2, 7, 4, 3, 2, 2, 3, 3};

/// z, x, b, c, dt, convolution's weight and bias, a_log, d, dt_bias
Arrays inputs(const Mixer& m) {
  const std::vector<std::int64_t> inner{m.batch, m.tokens, m.heads, m.head_dim},
      shared{m.batch, m.tokens, m.groups, m.state};
  return {random_reals(inner, 1),
          random_reals(inner, 2),
          random_reals(shared, 3),
          random_reals(shared, 4),
          random_reals({m.batch, m.tokens, m.heads}, 5),
          random_reals({m.channels(), m.window}, 6),
          random_reals({m.channels()}, 7),
          random_reals({m.heads}, 8),
          random_reals({m.heads}, 9),
          random_reals({m.heads}, 10)};
}
Array forward(const Mixer& m, Arrays& a) {
  Array y = m.output();
  std::vector<Argument> arguments;
  for (Array& x : a) arguments.push_back(in(x));
  arguments.push_back(out(y));
  call(task_of(ComputeOp::state_space), arguments, m.dims());
  return y;
}
/// Of all inputs, or, where weights are frozen, of the first five.
Arrays backward(const Mixer& m, Arrays& a, const Array& g, bool frozen = false) {
  Array dy = g;
  Arrays gradients;
  for (std::size_t i = 0; i < (frozen ? 5 : 10); ++i) gradients.push_back(reals(a[i].shape));
  std::vector<Argument> arguments{in(dy)};
  for (Array& x : a) arguments.push_back(in(x));
  for (std::size_t i = 0; i < gradients.size(); ++i)
    arguments.push_back(i < 5 ? out(gradients[i]) : inout(gradients[i]));
  ComputeTask t = task_of(ComputeOp::state_space_grad);
  t.accumulates = !frozen;
  call(t, arguments, m.dims());
  return gradients;
}
Case mixer(const Mixer& m) {
  return {"state space", inputs(m), [m](Arrays& a) { return forward(m, a); },
          [m](Arrays& a, const Array& g) { return backward(m, a, g); }};
}

double silu(double x) { return x / (1 + std::exp(-x)); }

/// What the definition says, one output at a time and without a state: a token's is that of all before it, each by the
/// decays since (Dao and Gu 2024, eq. 5).
class Direct {
 public:
  Direct(const Mixer& m, const Arrays& a) : m_(m), a_(a) {}
  [[nodiscard]] double y(std::int64_t s, std::int64_t t, std::int64_t head, std::int64_t p) const {
    const std::int64_t group = head * m_.groups / m_.heads, inner = m_.heads * m_.head_dim;
    double sum = 0;
    for (std::int64_t from = 0; from <= t; ++from) {
      double exponent = 0, match = 0;
      for (std::int64_t since = from + 1; since <= t; ++since) exponent -= std::exp(of(7, head)) * step(s, since, head);
      for (std::int64_t n = group * m_.state; n < (group + 1) * m_.state; ++n)
        match += mixed(s, from, inner + n) * mixed(s, t, inner + m_.groups * m_.state + n);
      sum += std::exp(exponent) * step(s, from, head) * match * mixed(s, from, head * m_.head_dim + p);
    }
    return (sum + of(8, head) * mixed(s, t, head * m_.head_dim + p)) *
           silu(of(0, (s * m_.tokens + t) * inner + head * m_.head_dim + p));
  }

 private:
  [[nodiscard]] double of(std::size_t input, std::int64_t i) const { return nth(a_[input].real, i); }
  [[nodiscard]] double step(std::int64_t s, std::int64_t t, std::int64_t head) const {
    return std::log(1 + std::exp(of(4, (s * m_.tokens + t) * m_.heads + head) + of(9, head)));
  }
  /// Channel `ch` past convolution and SiLU.
  [[nodiscard]] double mixed(std::int64_t s, std::int64_t t, std::int64_t ch) const {
    double sum = of(6, ch);
    for (std::int64_t back = 0; back < m_.window && back <= t; ++back)
      sum += of(5, ch * m_.window + m_.window - 1 - back) * input(s * m_.tokens + t - back, ch);
    return silu(sum);
  }
  [[nodiscard]] double input(std::int64_t row, std::int64_t ch) const {
    const std::int64_t inner = m_.heads * m_.head_dim, shared = m_.groups * m_.state;
    if (ch < inner) return of(1, row * inner + ch);
    return ch < inner + shared ? of(2, row * shared + ch - inner) : of(3, row * shared + ch - inner - shared);
  }
  const Mixer& m_;
  const Arrays& a_;
};

ComputeTask norm_task(ComputeOp op, const char* variant, double features) {
  ComputeTask t = task_of(op, variant);
  t.epsilon = 1e-5;
  t.scalars = {features};
  return t;
}

/// Two runs of six features, each of two heads.
Case grouped_norm() {
  const auto forward = [](Arrays& a) {
    Array y = reals(a[0].shape);
    call(norm_task(ComputeOp::norm, "grouped_rms_norm", 6), {in(a[0]), in(a[1]), out(y)});
    return y;
  };
  const auto backward = [](Arrays& a, const Array& g) {
    Array dy = g, dx = reals(a[0].shape), dw = reals(a[1].shape);
    ComputeTask t = norm_task(ComputeOp::norm_grad, "grouped_rms_norm", 6);
    call(t, {in(a[0]), in(dy), in(a[1]), out(dx)});
    t.accumulates = true;
    call(t, {in(a[0]), in(dy), inout(dw)});
    return Arrays{dx, dw};
  };
  return {"norm of runs", {random_reals({2, 2, 4, 3}, 1), random_reals({12}, 2)}, forward, backward};
}

Case weighted_squared_relu() {
  const auto forward = [](Arrays& a) {
    Array y = reals({3, 4});
    call(task_of(ComputeOp::activation, "weighted_squared_relu"), {in(a[0]), in(a[1]), out(y)});
    return y;
  };
  const auto backward = [](Arrays& a, const Array& g) {
    Array dy = g, dx = reals({3, 4}), dw = reals({3});
    call(task_of(ComputeOp::activation_grad, "weighted_squared_relu"), {in(dy), in(a[0]), in(a[1]), out(dx), out(dw)});
    return Arrays{dx, dw};
  };
  return {"weighted squared ReLU", {random_reals({3, 4}, 1), random_reals({3}, 2)}, forward, backward};
}

}  // namespace

TEST_CASE("gradients of the state-space mixer are derivatives") {
  check(mixer(kMixer));
  check(mixer({1, 5, 3, 2, 2, 3, 4, 8}));  // Groups of two heads and of one; one chunk, longer than the sequence.
  check(mixer({1, 2, 2, 1, 1, 2, 4, 1}));  // A window longer than the sequence; chunks of one token.
}

TEST_CASE("gradients of norms over runs and of experts' squared ReLU are derivatives") {
  check(grouped_norm());
  check(weighted_squared_relu());
}

TEST_CASE("the state-space mixer is attention by decays to all earlier tokens") {
  for (const Mixer& m : {kMixer, Mixer{1, 5, 3, 2, 2, 3, 4, 8}}) {
    Arrays a = inputs(m);
    const Array y = forward(m, a);
    const Direct direct(m, a);
    std::size_t i = 0;
    for (std::int64_t s = 0; s < m.batch; ++s)
      for (std::int64_t t = 0; t < m.tokens; ++t)
        for (std::int64_t head = 0; head < m.heads; ++head)
          for (std::int64_t p = 0; p < m.head_dim; ++p, ++i)
            CHECK(y.real[i] == Approx(direct.y(s, t, head, p)).epsilon(1e-10).margin(1e-12));
  }
}

TEST_CASE("where states are kept changes no bit of the mixer's gradients, nor do frozen weights those of its inputs") {
  Mixer other = kMixer;
  other.chunk = 4;
  Arrays a = inputs(kMixer);
  const Array dy = random_reals(kMixer.output().shape, 99);
  const Arrays gradients = backward(kMixer, a, dy), same = backward(other, a, dy),
               frozen = backward(kMixer, a, dy, true);
  for (std::size_t i = 0; i < gradients.size(); ++i) CHECK(gradients[i].real == same[i].real);
  for (std::size_t i = 0; i < frozen.size(); ++i) CHECK(gradients[i].real == frozen[i].real);
}

TEST_CASE("the state-space mixer bears steps and gates of any size") {
  Arrays a = inputs(kMixer);
  for (std::size_t i = 0; i < a[4].real.size(); ++i) a[4].real[i] = i % 2 == 0 ? 2000 : -2000;
  for (std::size_t i = 0; i < a[0].real.size(); ++i) a[0].real[i] = i % 3 == 0 ? 2000 : -2000;
  for (const double y : forward(kMixer, a).real) CHECK(std::isfinite(y));
  for (const Array& gradient : backward(kMixer, a, random_reals(kMixer.output().shape, 99)))
    for (const double g : gradient.real) CHECK(std::isfinite(g));
}

TEST_CASE("a norm of one run is the norm of all features, and one of runs that of each") {
  Array x = random_reals({2, 3, 4, 3}, 1), flat = x, w = random_reals({12}, 2), whole = x, plain = x, runs = x;
  flat.shape = {2, 3, 12};
  plain.shape = flat.shape;
  call(norm_task(ComputeOp::norm, "rms_norm", 0), {in(flat), in(w), out(plain)});
  call(norm_task(ComputeOp::norm, "grouped_rms_norm", 12), {in(x), in(w), out(whole)});
  CHECK(whole.real == plain.real);
  call(norm_task(ComputeOp::norm, "grouped_rms_norm", 3), {in(x), in(w), out(runs)});
  for (std::size_t run = 0; run < x.real.size() / 3; ++run) {
    double square = 0;
    for (std::size_t i = 3 * run; i < 3 * run + 3; ++i) square += x.real[i] * x.real[i] / 3;
    for (std::size_t i = 3 * run; i < 3 * run + 3; ++i)
      CHECK(runs.real[i] == Approx(x.real[i] / std::sqrt(square + 1e-5) * w.real[i % 12]));
  }
}
