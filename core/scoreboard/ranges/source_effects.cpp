#include "core/scoreboard/ranges/source_effects.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/normal.hpp"
#include "core/scoreboard/ranges/student.hpp"

namespace rehearse {

namespace {

constexpr double kAnything = 100;        // Variance of the widest level: nothing is known of it beforehand.
constexpr double kLevelVariance = 0.01;  // Of the others, to begin with: 10 %.
constexpr double kLevelWorth = 2;        // Effects' worth by which they are drawn towards it.
constexpr double kFirstVariance = 0.03;  // Where EM starts.
constexpr double kFirstRest = 0.01;
constexpr double kLeastVariance = 1e-6;  // Rows that agree to a tenth of a percent agree by chance or by rounding.
constexpr double kLeastUneven = 1e-6;
constexpr double kConverged = 1e-6;
constexpr int kMostSteps = 1000;
constexpr int kSources = 101;  // Sources that stand for all, noisy and quiet.
constexpr int kHalvings = 40;

/// `sum` of `count` squares, drawn towards `centre` as if `worth` squares more had been that large.
double shrunk(double sum, double count, double centre, double worth) {
  return (sum + worth * centre) / (count + worth);
}

/// The logarithm of a variance that was estimated with so many degrees of freedom, without its known bias, and the
/// variance of its noise.
struct LogVariance {
  double value, noise;
};
LogVariance log_variance(double squares, double degrees) {
  const double half = degrees / 2;
  return {std::log(std::max(squares / degrees, kLeastVariance)) - digamma(half) + std::log(half), trigamma(half)};
}

double mean_log(const RestSpread* of) { return of != nullptr ? std::log(of->variance) : 0; }

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

struct SourceEffects::Moments {
  std::map<BiasLevel, std::vector<double>> levels;
  std::map<std::string, std::vector<double>> sources;
  std::vector<double> machines;
};

RestSpread RestSpread::of_source(double squares, double degrees) const {
  if (!(degrees > 0)) return *this;
  if (!(variance > 0)) return {squares / degrees, 0};
  const LogVariance seen = log_variance(squares, degrees);
  const double own = uneven / (uneven + seen.noise);
  return {variance * std::exp(own * (seen.value - std::log(variance))), uneven * (1 - own)};
}

double ErrorOutlook::half_width() const {
  const double known = bias_variance + source_variance + machine_variance;
  std::vector<double> deviations;
  double mean_rest = 0;
  for (int i = 0; i < kSources; ++i) {
    const double rest = rest_variance * std::exp(std::sqrt(rest_uneven) * normal_quantile((i + 0.5) / kSources));
    deviations.push_back(std::sqrt(known + rest));
    mean_rest += rest / kSources;
  }
  if (!(deviations.back() > 0)) return 0;
  double low = 0, high = 4 * deviations.back();
  for (int i = 0; i < kHalvings; ++i) {
    const double half = (low + high) / 2;
    double inside = 0;
    for (const double d : deviations) inside += (2 * normal_share(half / d) - 1) / kSources;
    (inside < kLikelyShare ? low : high) = half;
  }
  if (!(degrees > 0)) return high;
  const double all = known + mean_rest, squares = known * known + mean_rest * mean_rest, p = 1 - kLikelyTail;
  return high * student_quantile(p, degrees * all * all / squares) / normal_quantile(p);
}

std::string SourceEffects::name(BiasLevel level, const PredictionKind& kind) const {
  switch (level) {
    case BiasLevel::all: return "all";
    case BiasLevel::model: return kind.model;
    case BiasLevel::generation: return kind.generation;
    case BiasLevel::model_on_generation:
      return kind.generation.empty() ? std::string() : kind.model + " on " + kind.generation;
    case BiasLevel::framework: return kind.framework;
    case BiasLevel::model_in_framework:
      return kind.framework.empty() ? std::string() : kind.model + " in " + kind.framework;
  }
  return {};
}

SourceEffects::SourceEffects(const std::vector<ErrorGroup>& groups, EffectOptions options)
    : options_(std::move(options)) {
  place(groups);
  spread_rest();
  for (const BiasLevel level : options_.levels)
    level_variance_[level] = level == BiasLevel::all ? kAnything : kLevelVariance;
  machine_ = options_.towards != nullptr ? options_.towards->machine_variance() : kLevelVariance;
  for (auto& [model, spread] : spreads_) spread.between = kFirstVariance;
  solve();
  for (int i = 0; i < kMostSteps && improve(moments()) > kConverged; ++i) solve();
  solve();
  options_.towards = nullptr;  // It need not outlive what was made of it.
}

void SourceEffects::place(const std::vector<ErrorGroup>& groups) {
  std::map<std::pair<std::string, std::string>, Block> blocks;
  for (const ErrorGroup& g : groups) {
    Block& block = blocks[{g.source, g.kind.model}];
    block.model = g.kind.model;
    block.means.push_back(g.mean);
    block.rows.push_back(g.rows);
    block.squares += (g.rows - 1) * g.deviation * g.deviation;
    block.degrees += g.rows - 1;
    std::vector<std::size_t> effects;
    for (const BiasLevel level : options_.levels)
      if (const std::string named = name(level, g.kind); !named.empty())
        effects.push_back(places_.try_emplace({level, named}, places_.size()).first->second);
    block.effects.push_back(std::move(effects));
  }
  for (auto& [key, block] : blocks) blocks_.push_back(std::move(block));
}

RestSpread SourceEffects::rest_of(const std::string* model, const RestSpread* centre) const {
  const double worth = centre != nullptr ? options_.shrinkage : 0;
  double mean = centre != nullptr ? std::log(centre->variance) : std::log(kFirstRest);
  double variance = centre != nullptr ? centre->uneven : 1;
  std::vector<LogVariance> all;
  for (const Block& b : blocks_)
    if ((model == nullptr || b.model == *model) && b.degrees > 0) all.push_back(log_variance(b.squares, b.degrees));
  const double count = worth + static_cast<double>(all.size());
  if (!(count > 0)) return {kFirstRest, 1};
  // By the EM algorithm: each source's logarithm is known as far as its noise lets it be.
  double change = 1;
  for (int i = 0; i < kMostSteps && change > kConverged; ++i) {
    double weights = worth, sum = worth * mean_log(centre), squares = centre != nullptr ? worth * centre->uneven : 0;
    for (const LogVariance& seen : all) {
      const double own = variance / (variance + seen.noise), off = own * (seen.value - mean);
      weights += own;
      sum += own * seen.value;
      squares += off * off + variance * (1 - own);
    }
    const double next = std::max(kLeastUneven, squares / count);
    change = std::max(std::abs(sum / weights - mean), std::abs(next - variance) / next);
    mean = sum / weights;
    variance = next;
  }
  return {std::exp(mean), variance};
}

void SourceEffects::spread_rest() {
  for (const Block& b : blocks_) {
    ++spreads_[b.model].sources;
    ++pooled_.sources;
  }
  pooled_.rest = rest_of(nullptr, options_.towards != nullptr ? &options_.towards->spread("").rest : nullptr);
  pooled_.degrees = pooled_.sources;
  for (auto& [model, spread] : spreads_) {
    spread.rest = rest_of(&model, &pooled_.rest);
    spread.degrees = spread.sources - 1 + options_.shrinkage;
  }
  for (Block& b : blocks_) b.rest = spreads_.at(b.model).rest.of_source(b.squares, b.degrees).variance;
}

SymmetricMatrix SourceEffects::precision_of(const Block& block) const {
  const ErrorSpread& spread = spreads_.at(block.model);
  SymmetricMatrix covariance(block.means.size());
  for (std::size_t i = 0; i < block.means.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) covariance.add(i, j, spread.between);
    covariance.add(i, i, machine_ + block.rest / block.rows[i]);
  }
  return covariance.inverse();
}

void SourceEffects::solve() {
  SymmetricMatrix precision(places_.size());
  std::vector<double> right(places_.size());
  for (const auto& [key, place] : places_) precision.add(place, place, 1 / level_variance_.at(key.first));
  for (const Block& b : blocks_) {
    const SymmetricMatrix w = precision_of(b);
    for (std::size_t i = 0; i < b.means.size(); ++i) {
      for (std::size_t j = 0; j < b.means.size(); ++j) {
        for (const std::size_t p : b.effects[i]) {
          right[p] += w(i, j) * b.means[j];
          for (const std::size_t q : b.effects[j])
            if (q <= p) precision.add(p, q, w(i, j));
        }
      }
    }
  }
  covariance_ = precision.inverse();
  bias_ = covariance_.times(right);
}

SourceEffects::Moments SourceEffects::moments() const {
  Moments out;
  for (const auto& [key, place] : places_)
    out.levels[key.first].push_back(bias_[place] * bias_[place] + covariance_(place, place));
  for (const Block& b : blocks_) {
    const std::size_t n = b.means.size();
    const SymmetricMatrix w = precision_of(b);
    std::vector<double> residual = b.means;
    for (std::size_t i = 0; i < n; ++i)
      for (const std::size_t p : b.effects[i]) residual[i] -= bias_[p];
    // Effects of a direction d have the mean v d'W r and the variance v - v^2 d'(W - W X C X' W) d.
    const auto second_moment = [&](const std::vector<double>& direction, double v) {
      const std::vector<double> weights = w.times(direction);
      std::vector<double> onto(bias_.size());
      for (std::size_t i = 0; i < n; ++i)
        for (const std::size_t p : b.effects[i]) onto[p] += weights[i];
      const double mean = v * dot(weights, residual);
      return mean * mean + v - v * v * (dot(weights, direction) - dot(onto, covariance_.times(onto)));
    };
    out.sources[b.model].push_back(second_moment(std::vector<double>(n, 1.0), spreads_.at(b.model).between));
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<double> one(n);
      one[i] = 1;
      out.machines.push_back(second_moment(one, machine_));
    }
  }
  return out;
}

double SourceEffects::improve(const Moments& found) {
  double change = 0;
  const auto set = [&change](double& variance, double value) {
    change = std::max(change, std::abs(value - variance) / value);
    variance = value;
  };
  const auto sum = [](const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); };
  const auto count = [](const std::vector<double>& v) { return static_cast<double>(v.size()); };
  for (auto& [level, variance] : level_variance_)
    if (const auto at = found.levels.find(level); level != BiasLevel::all && at != found.levels.end())
      set(variance, shrunk(sum(at->second), count(at->second), kLevelVariance, kLevelWorth));
  std::vector<double> all;
  for (const auto& [model, squares] : found.sources) all.insert(all.end(), squares.begin(), squares.end());
  pooled_.between = options_.towards == nullptr
                        ? mean_of(all)
                        : shrunk(sum(all), count(all), options_.towards->spread("").between, options_.shrinkage);
  for (const auto& [model, squares] : found.sources) {
    set(spreads_.at(model).between, shrunk(sum(squares), count(squares), pooled_.between, options_.shrinkage));
  }
  const double machine = options_.towards != nullptr ? options_.towards->machine_variance() : kLevelVariance;
  set(machine_, shrunk(sum(found.machines), count(found.machines), machine, kLevelWorth));
  return change;
}

ErrorOutlook SourceEffects::outlook(const PredictionKind& kind) const {
  ErrorOutlook out;
  std::vector<double> onto(bias_.size());
  for (const BiasLevel level : options_.levels) {
    const auto at = places_.find({level, name(level, kind)});
    if (at == places_.end())
      out.bias_variance += level_variance_.at(level);
    else
      onto[at->second] = 1;
  }
  out.bias = dot(onto, bias_);
  out.bias_variance += dot(onto, covariance_.times(onto));
  const ErrorSpread& of = spread(kind.model);
  out.source_variance = of.between;
  out.machine_variance = machine_;
  out.rest_variance = of.rest.variance;
  out.rest_uneven = of.rest.uneven;
  out.degrees = of.degrees;
  return out;
}

const ErrorSpread& SourceEffects::spread(const std::string& model) const {
  const auto at = spreads_.find(model);
  return at == spreads_.end() ? pooled_ : at->second;
}

double SourceEffects::variance(BiasLevel level) const {
  const auto at = level_variance_.find(level);
  return at == level_variance_.end() ? 0 : at->second;
}

}  // namespace rehearse
