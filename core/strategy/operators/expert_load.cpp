// How many rows go where: averages per expert, per rank and per node.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "core/base/normal.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/strategy/operators/expert_plan.hpp"

namespace rehearse {

namespace {

double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }
double normal_below(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

/// How often a token chooses each expert, the most popular first: they add up to k, and none is above 1.
std::vector<double> popularity(const Routing& r, const ExpertSettings& settings) {
  const auto n = static_cast<std::size_t>(r.experts);
  const double k = static_cast<double>(r.top_k);
  if (settings.imbalance != Imbalance::zipf) return std::vector<double>(n, k / static_cast<double>(n));
  std::vector<double> weight(n);
  for (std::size_t j = 0; j < n; ++j) weight[j] = std::pow(static_cast<double>(j + 1), -settings.zipf_exponent);
  // Experts that every token chooses leave the rest of its choices to the others.
  std::size_t certain = 0;
  double others = std::accumulate(weight.begin(), weight.end(), 0.0);
  while (certain < n && (k - static_cast<double>(certain)) * weight[certain] >= others) others -= weight[certain++];
  for (std::size_t j = 0; j < n; ++j)
    weight[j] = j < certain ? 1.0 : (k - static_cast<double>(certain)) * weight[j] / others;
  return weight;
}

/// E[min(X, c)] for a normal X.
double mean_below(double mean, double deviation, double c) {
  if (deviation <= 0) return std::min(mean, c);
  const double d = (c - mean) / deviation;
  return mean * normal_below(d) - deviation * normal_density(d) + c * (1 - normal_below(d));
}

/// Whole shares of `total`, in proportion to `weights` and largest remainder first, in the order of `weights`.
std::vector<std::int64_t> shares(const std::vector<double>& weights, std::int64_t total) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> out;
  std::vector<std::pair<double, std::size_t>> rest;
  std::int64_t given = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = static_cast<double>(total) * weights[i] / sum;
    out.push_back(static_cast<std::int64_t>(std::floor(exact)));
    given += out.back();
    rest.emplace_back(std::floor(exact) - exact, i);
  }
  std::sort(rest.begin(), rest.end());
  for (std::size_t i = 0; given < total; ++i, ++given) ++out[rest[i % rest.size()].second];
  return out;
}

/// Expected counts of `ranks` ranks in units of their mean.
std::vector<double> multinomial_loads(const Routing& r, double mean, int ranks) {
  const double k = static_cast<double>(r.top_k), experts = static_cast<double>(r.experts), share = 1.0 / ranks;
  const double tokens = mean * ranks / k;
  const double spread = experts > 1 ? (experts - k) / (experts - 1) : 0.0;
  const double deviation = std::sqrt(tokens * k * share * (1 - share) * spread);
  std::vector<double> out;
  for (int i = 0; i < ranks; ++i)
    out.push_back(std::max(0.0, mean + deviation * expected_order_statistic(i + 1, ranks)));
  return out;
}

std::vector<double> dealt_loads(std::vector<double> experts, int ranks, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t i = experts.size(); i > 1; --i) std::swap(experts[i - 1], experts[random() % i]);
  std::vector<double> out(static_cast<std::size_t>(ranks), 0.0);
  for (std::size_t j = 0; j < experts.size(); ++j) out[j % static_cast<std::size_t>(ranks)] += experts[j];
  return out;
}

}  // namespace

double nodes_visited(const Routing& r, int groups) {
  const double per_group = static_cast<double>(r.experts) / groups;
  const double allowed =
      r.groups > 1 ? std::max(1.0, static_cast<double>(groups * r.limit) / static_cast<double>(r.groups)) : groups;
  double none = 1;  // No choice in one given group.
  for (int i = 0; i < r.top_k; ++i) none *= std::max(0.0, (allowed - 1) * per_group - i) / (allowed * per_group - i);
  return allowed * (1 - none);
}

std::vector<double> rows_per_expert(const Routing& r, std::int64_t tokens, std::int64_t capacity,
                                    const ExpertSettings& settings) {
  std::vector<double> out = popularity(r, settings);
  for (double& rows : out) {
    const double p = rows, n = static_cast<double>(tokens);
    rows = n * p;
    if (capacity == 0) continue;
    const double deviation = settings.imbalance == Imbalance::none ? 0.0 : std::sqrt(std::max(0.0, n * p * (1 - p)));
    rows = mean_below(rows, deviation, static_cast<double>(capacity));
  }
  return out;
}

std::vector<std::int64_t> rows_per_rank(const Routing& r, const std::vector<double>& experts, std::int64_t total,
                                        int ranks, int multiple, Imbalance imbalance, std::uint64_t seed) {
  const double mean = static_cast<double>(total) / ranks;
  std::vector<double> loads(static_cast<std::size_t>(ranks), mean);
  if (imbalance == Imbalance::multinomial) loads = multinomial_loads(r, mean, ranks);
  if (imbalance == Imbalance::zipf) loads = dealt_loads(experts, ranks, seed);
  std::sort(loads.begin(), loads.end(), std::greater<>());
  std::vector<std::int64_t> out = shares(loads, total / multiple);
  for (std::int64_t& rows : out) rows *= multiple;
  std::sort(out.begin(), out.end(), std::greater<>());
  return out;
}

}  // namespace rehearse
