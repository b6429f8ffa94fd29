// Choosing experts: scores, the k best of each token and their weights, how many rows each expert gets, and the losses
// that keep experts even. Ties go to the expert that stands first, so that a choice is a function of the scores alone.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/index.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"

namespace rehearse {

namespace {

/// Numbers of a routing task: dims {tokens here, experts, k, groups, groups per token, tokens of the replica's
/// microbatch, microbatches, replicas in the scope of the balancing loss}, scalars {sum of a token's weights,
/// coefficient of the balancing loss, of the squared log-sum-exp, whether weights are normalised}.
struct Router {
  std::int64_t tokens, experts, k, groups, limit;
  double scale, aux, z, replica_tokens, microbatches, replicas;
  bool normalises;
  explicit Router(const OperatorCall& c)
      : tokens(c.dims.at(0)),
        experts(c.dims.at(1)),
        k(c.dims.at(2)),
        groups(c.dims.at(3)),
        limit(c.dims.at(4)),
        scale(c.task->scalars.at(0)),
        aux(c.task->scalars.at(1)),
        z(c.task->scalars.at(2)),
        replica_tokens(static_cast<double>(c.dims.at(5))),
        microbatches(static_cast<double>(c.dims.at(6))),
        replicas(static_cast<double>(c.dims.at(7))),
        normalises(c.task->scalars.at(3) != 0) {}
};

/// Probabilities of one token's experts.
template <class T, bool kSigmoid>
std::vector<T> probabilities(const T* scores, std::int64_t n) {
  std::vector<T> out(static_cast<std::size_t>(n));
  if constexpr (kSigmoid) {
    for (std::size_t e = 0; e < out.size(); ++e) out[e] = T{1} / (T{1} + std::exp(-scores[e]));
  } else {
    const T max = *std::max_element(scores, scores + n);
    T sum{0};
    for (std::size_t e = 0; e < out.size(); ++e) sum += out[e] = std::exp(scores[e] - max);
    for (T& p : out) p /= sum;
  }
  return out;
}

/// The `n` largest of `values`, largest first.
template <class T>
std::vector<std::int64_t> largest(const std::vector<T>& values, std::int64_t n) {
  std::vector<std::int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](std::int64_t a, std::int64_t b) {
    const T x = nth(values, a), y = nth(values, b);
    return x > y || (x == y && a < b);
  };
  std::partial_sort(order.begin(), order.begin() + n, order.end(), before);
  order.resize(static_cast<std::size_t>(n));
  return order;
}

/// Experts outside a token's groups take no part. A group is worth its two best experts (DeepSeek-AI 2024b,
/// sec. 2.1.2).
template <class T>
std::vector<std::int64_t> choose(const Router& r, std::vector<T> p) {
  if (r.limit < r.groups) {
    const std::int64_t size = r.experts / r.groups;
    std::vector<T> worth;
    for (std::int64_t g = 0; g < r.groups; ++g) {
      const std::vector<T> members(p.begin() + g * size, p.begin() + (g + 1) * size);
      T sum{0};
      for (const std::int64_t e : largest(members, std::min<std::int64_t>(2, size))) sum += nth(members, e);
      worth.push_back(sum);
    }
    std::vector<bool> open(static_cast<std::size_t>(r.groups), false);
    for (const std::int64_t g : largest(worth, r.limit)) nth(open, g) = true;
    for (std::int64_t e = 0; e < r.experts; ++e)
      if (!nth(open, e / size)) nth(p, e) = T{-1};
  }
  return largest(p, r.k);
}

/// scores [b, s, E], weights [b, s, k], choice [b, s, k], [load [E]: share of all choices that fall on each expert]
template <class T, bool kSigmoid>
struct Route {
  static void run(const OperatorCall& c) {
    const Router r(c);
    T* load = c.operands.size() > 3 ? c.operand(3).as<T>() : nullptr;
    if (load != nullptr) std::fill_n(load, r.experts, T{0});
    for (std::int64_t t = 0; t < r.tokens; ++t) {
      const std::vector<T> p = probabilities<T, kSigmoid>(c.operand(0).as<T>() + t * r.experts, r.experts);
      const std::vector<std::int64_t> chosen = choose(r, p);
      T sum{0};
      for (const std::int64_t e : chosen) sum += nth(p, e);
      for (std::int64_t i = 0; i < r.k; ++i) {
        const std::int64_t e = nth(chosen, i);
        c.operand(1).as<T>()[t * r.k + i] = static_cast<T>(r.scale) * nth(p, e) / (r.normalises ? sum : T{1});
        c.operand(2).as<std::int64_t>()[t * r.k + i] = e;
        // Shares of the choices of all tokens in the loss's scope, which a sum over ranks completes.
        if (load != nullptr)
          load[e] += static_cast<T>(1.0 / (r.replica_tokens * r.replicas * static_cast<double>(r.k)));
      }
    }
  }
};

/// Gradient of a token's probabilities from that of its weights.
template <class T>
void weights_gradient(const Router& r, const std::vector<T>& p, const T* dweights, const std::int64_t* choice,
                      std::vector<T>& dp) {
  T sum{0}, along{0};
  for (std::int64_t i = 0; i < r.k; ++i) {
    sum += nth(p, choice[i]);
    along += dweights[i] * nth(p, choice[i]);
  }
  const T scale = static_cast<T>(r.scale);
  for (std::int64_t i = 0; i < r.k; ++i)
    nth(dp, choice[i]) += r.normalises ? scale * (dweights[i] - along / sum) / sum : scale * dweights[i];
}

/// Adds the gradient of the balancing loss, aux E sum_e f_e P_e with P_e the mean of normalised probabilities (Fedus et
/// al. 2021, eq. 4).
template <class T>
void balance_gradient(const Router& r, const std::vector<T>& p, const T* load, std::vector<T>& dp) {
  const T total = std::accumulate(p.begin(), p.end(), T{0}),
          factor = static_cast<T>(r.aux * static_cast<double>(r.experts) / (r.replica_tokens * r.microbatches));
  T along{0};
  for (std::size_t e = 0; e < p.size(); ++e) along += load[e] * p[e] / total;
  for (std::size_t e = 0; e < p.size(); ++e) dp[e] += factor * (load[e] - along) / total;
}

/// weight gradients [b, s, k], scores, choice, scores' gradient, [load]
template <class T, bool kSigmoid>
struct RouteGrad {
  static void run(const OperatorCall& c) {
    const Router r(c);
    for (std::int64_t t = 0; t < r.tokens; ++t) {
      const T* scores = c.operand(1).as<T>() + t * r.experts;
      T* out = c.operand(3).as<T>() + t * r.experts;
      const std::vector<T> p = probabilities<T, kSigmoid>(scores, r.experts);
      std::vector<T> dp(p.size(), T{0});
      weights_gradient(r, p, c.operand(0).as<T>() + t * r.k, c.operand(2).as<std::int64_t>() + t * r.k, dp);
      if (c.operands.size() > 4) balance_gradient(r, p, c.operand(4).as<T>(), dp);
      T along{0};
      for (std::size_t e = 0; e < p.size(); ++e) along += dp[e] * p[e];
      for (std::size_t e = 0; e < p.size(); ++e)
        out[e] = kSigmoid ? dp[e] * p[e] * (T{1} - p[e]) : p[e] * (dp[e] - along);
      if (r.z > 0) add_log_sum(r, scores, out);
    }
  }
  /// Gradient of z times the mean squared log-sum-exp of scores (Zoph et al. 2022, eq. 5).
  static void add_log_sum(const Router& r, const T* scores, T* out) {
    const std::vector<T> p = probabilities<T, false>(scores, r.experts);
    const T max = *std::max_element(scores, scores + r.experts);
    T sum{0};
    for (std::int64_t e = 0; e < r.experts; ++e) sum += std::exp(scores[e] - max);
    const T factor = static_cast<T>(2 * r.z / (r.replica_tokens * r.microbatches)) * (max + std::log(sum));
    for (std::size_t e = 0; e < p.size(); ++e) out[e] += factor * p[e];
  }
};

/// choice, counts [E]: rows that each expert gets of these tokens; scalars: the most it takes, 0 for all
template <class T>
struct PerExpert {
  static void run(const OperatorCall& c) {
    const TensorView& counts = c.operand(1);
    std::fill_n(counts.as<std::int64_t>(), counts.elements(), 0);
    const auto most = static_cast<std::int64_t>(c.task->scalars.at(0));
    for (std::int64_t i = 0; i < c.operand(0).elements(); ++i) {
      std::int64_t& n = counts.as<std::int64_t>()[c.operand(0).as<std::int64_t>()[i]];
      if (most == 0 || n < most) ++n;
    }
  }
};
/// counts, their sum
template <class T>
struct Total {
  static void run(const OperatorCall& c) {
    const auto* counts = c.operand(0).as<std::int64_t>();
    c.operand(1).as<std::int64_t>()[0] = std::accumulate(counts, counts + c.operand(0).elements(), std::int64_t{0});
  }
};

template <class T>
using RouteSoftmax = Route<T, false>;
template <class T>
using RouteSigmoid = Route<T, true>;
template <class T>
using RouteSoftmaxGrad = RouteGrad<T, false>;
template <class T>
using RouteSigmoidGrad = RouteGrad<T, true>;

[[maybe_unused]] const bool registered_routing =
    cpu_operators().add({"route.softmax", "the best experts of each token by softmax", {}, both<RouteSoftmax>()}) &&
    cpu_operators().add({"route.sigmoid", "the best experts of each token by sigmoid", {}, both<RouteSigmoid>()}) &&
    cpu_operators().add({"route_grad.softmax", "gradient of the scores", {}, both<RouteSoftmaxGrad>()}) &&
    cpu_operators().add({"route_grad.sigmoid", "gradient of the scores", {}, both<RouteSigmoidGrad>()}) &&
    cpu_operators().add({"histogram.per_expert", "rows for each expert", {}, both<PerExpert>()}) &&
    cpu_operators().add({"histogram.sum", "rows here", {}, both<Total>()});

}  // namespace

}  // namespace rehearse
