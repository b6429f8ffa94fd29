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
constexpr double kConverged = 1e-6;
constexpr int kMostSteps = 1000;

/// `sum` of `count` squares, drawn towards `centre` as if `worth` squares more had been that large.
double shrunk(double sum, double count, double centre, double worth) {
  return (sum + worth * centre) / (count + worth);
}

double squared_sum(const std::vector<double>& values, double centre) {
  double out = 0;
  for (const double v : values) out += (v - centre) * (v - centre);
  return out;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

struct SourceEffects::Moments {
  std::map<BiasLevel, std::vector<double>> levels;
  std::map<std::string, std::vector<double>> sources;
  std::vector<double> machines;
};

double ErrorOutlook::half_width() const {
  const double all = variance();
  if (!(all > 0)) return 0;
  const double p = 1 - kLikelyTail;
  double out = normal_quantile(p) * std::sqrt(all);
  if (const double kurtosis = 3 * rest_uneven / (all * all); kurtosis > 0) {
    const double tails = 4 + 6 / kurtosis;
    out = student_quantile(p, tails) * std::sqrt(all * (tails - 2) / tails);
  }
  if (!(degrees > 0)) return out;
  double squares = 0;
  for (const double part : {bias_variance + source_variance + machine_variance, rest_variance}) squares += part * part;
  return out * student_quantile(p, degrees * all * all / squares) / normal_quantile(p);
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
  spread_within();
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

void SourceEffects::spread_within() {
  std::map<std::string, std::vector<double>> found;
  std::vector<double> all;
  for (const Block& b : blocks_) {
    ++spreads_[b.model].sources;
    ++pooled_.sources;
    if (!(b.degrees > 0)) continue;
    found[b.model].push_back(b.squares / b.degrees);
    all.push_back(b.squares / b.degrees);
  }
  pooled_.within = all.empty() ? 0 : mean_of(all);
  const double own = static_cast<double>(all.size());
  if (options_.towards != nullptr)
    pooled_.within = shrunk(own * pooled_.within, own, options_.towards->spread("").within, options_.shrinkage);
  for (auto& [model, spread] : spreads_) {
    const std::vector<double>& of = found[model];
    const double centre = options_.towards != nullptr ? options_.towards->spread(model).within : pooled_.within;
    spread.within =
        shrunk(std::accumulate(of.begin(), of.end(), 0.0), static_cast<double>(of.size()), centre, options_.shrinkage);
  }
  spread_unevenness();
  pooled_.degrees = pooled_.sources;
  for (auto& [model, spread] : spreads_) spread.degrees = spread.sources - 1 + options_.shrinkage;
}

void SourceEffects::spread_unevenness() {
  // A variance of few rows is drawn towards its kind's, as one row more would: its own noise is not unevenness.
  std::map<std::string, std::vector<double>> steadied;
  std::vector<double> all_steadied;
  for (const Block& b : blocks_) {
    if (!(b.degrees > 0)) continue;
    steadied[b.model].push_back(shrunk(b.squares, b.degrees, spreads_[b.model].within, 1));
    all_steadied.push_back(steadied[b.model].back());
  }
  if (!all_steadied.empty())
    pooled_.uneven = squared_sum(all_steadied, pooled_.within) / static_cast<double>(all_steadied.size());
  for (auto& [model, spread] : spreads_)
    spread.uneven = shrunk(squared_sum(steadied[model], spread.within), static_cast<double>(steadied[model].size()),
                           pooled_.uneven, options_.shrinkage);
}

SymmetricMatrix SourceEffects::precision_of(const Block& block) const {
  const ErrorSpread& spread = spreads_.at(block.model);
  SymmetricMatrix covariance(block.means.size());
  for (std::size_t i = 0; i < block.means.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) covariance.add(i, j, spread.between);
    covariance.add(i, i, machine_ + spread.within / block.rows[i]);
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
    const double centre = options_.towards != nullptr ? options_.towards->spread(model).between : pooled_.between;
    set(spreads_.at(model).between, shrunk(sum(squares), count(squares), centre, options_.shrinkage));
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
  out.rest_variance = of.within;
  out.rest_uneven = of.uneven;
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
