#pragma once
// How errors of predictions come about, fitted to groups of them:
//
//   log(measured / predicted) of a row = bias of its kind of job + effect of its source + effect of its source on its
//                                        GPU generation + rest
//
// The bias is a sum of levels (all jobs; the kind of model; the generation; ...), each of whose effects is normal
// around 0, so that a level with few sources is drawn towards the wider one. This is the mixed linear model of
// Henderson (1975), with variances by the EM algorithm as in Laird and Ware (1982), which for one level is what
// DerSimonian and Laird (1986) call random effects. Because a source's own effect has a variance, a source of a
// thousand rows counts little more than one of ten.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/scoreboard/ranges/error_groups.hpp"
#include "core/scoreboard/ranges/symmetric_matrix.hpp"

namespace rehearse {

/// What a part of the bias belongs to.
enum class BiasLevel { all, model, generation, model_on_generation, framework, model_in_framework };

/// The rest's variance inside a source. Some sources are noisy and most are not: the logarithm of the variance is
/// normal from source to source, after Smyth (2004), who has it scaled inverse chi-squared.
struct RestSpread {
  double variance = 0;  ///< The median over sources.
  double uneven = 0;    ///< Variance, from source to source, of the variance's logarithm.

  /// What is known of one source's rest after `squares`, the sum of squared deviations from its means, with so many
  /// degrees of freedom: the log of such a variance is off by psi(degrees / 2) - log(degrees / 2) on average, with
  /// the variance psi'(degrees / 2). Its own where there are many, what other sources have where there are few.
  [[nodiscard]] RestSpread of_source(double squares, double degrees) const;
};

/// Variances of one kind of model.
struct ErrorSpread {
  int sources = 0;
  double between = 0;  ///< Of the sources' effects.
  RestSpread rest;
  double degrees = 0;  ///< Sources' worth of knowledge that the variances rest on.
};

/// What is known of the next row of a source that nobody has seen, as log(measured / predicted).
struct ErrorOutlook {
  double bias = 0;
  double bias_variance = 0;     ///< Of the bias: sources are few.
  double source_variance = 0;   ///< Of a source's effect, the same on all generations.
  double machine_variance = 0;  ///< Of what a source's effect on one generation adds.
  double rest_variance = 0;     ///< RestSpread::variance.
  double rest_uneven = 0;       ///< RestSpread::uneven.
  double degrees = 0;           ///< ErrorSpread::degrees.

  [[nodiscard]] RestSpread rest() const { return {rest_variance, rest_uneven}; }
  /// Half of the range that holds kLikelyShare of rows whose rest is normal with the variance of a source drawn at
  /// random: most sources are quiet, so that this is less than a normal distribution of the mean variance has. That
  /// the variances are themselves estimated widens the range by Student's t of as many degrees as Satterthwaite's
  /// (1946) formula gives.
  [[nodiscard]] double half_width() const;
};

class SourceEffects;

struct EffectOptions {
  std::vector<BiasLevel> levels;  ///< Of the bias, the widest first.
  /// Sources' worth by which variances of a kind are drawn towards those of all kinds, and those of all kinds towards
  /// `towards`.
  double shrinkage = 4;
  /// What variances are drawn towards; used by the constructor alone. Null: the other kinds.
  const SourceEffects* towards = nullptr;
};

class SourceEffects {
 public:
  /// `groups` must hold one of several rows.
  SourceEffects(const std::vector<ErrorGroup>& groups, EffectOptions options);

  /// Levels that no group belonged to add their variance to the bias's, so that what was never measured is less sure.
  [[nodiscard]] ErrorOutlook outlook(const PredictionKind& kind) const;
  /// Of the kind of model; of all where no source measured it.
  [[nodiscard]] const ErrorSpread& spread(const std::string& model) const;
  /// Of the effects of one level.
  [[nodiscard]] double variance(BiasLevel level) const;
  [[nodiscard]] double machine_variance() const { return machine_; }

 private:
  /// One source's groups of one kind of model.
  struct Block {
    std::string model;
    std::vector<double> means, rows;
    std::vector<std::vector<std::size_t>> effects{};  ///< Of the bias, for each group.
    double squares = 0, degrees = 0;                  ///< Inside the groups.
    double rest = 0;                                  ///< Variance that follows: RestSpread::of_source().
  };
  struct Moments;  // Squares that effects are expected to have, for the next variances.
  void place(const std::vector<ErrorGroup>& groups);
  void spread_rest();
  /// Of the blocks of one kind of model, or of all where `model` is null; drawn towards `centre` where it isn't null.
  [[nodiscard]] RestSpread rest_of(const std::string* model, const RestSpread* centre) const;
  void solve();
  [[nodiscard]] Moments moments() const;
  /// Largest change of any variance, relative to it.
  double improve(const Moments& found);
  [[nodiscard]] std::string name(BiasLevel level, const PredictionKind& kind) const;
  [[nodiscard]] SymmetricMatrix precision_of(const Block& block) const;

  EffectOptions options_;
  std::vector<Block> blocks_;
  std::map<std::pair<BiasLevel, std::string>, std::size_t> places_;  ///< Of each effect of the bias.
  std::map<BiasLevel, double> level_variance_;
  std::map<std::string, ErrorSpread> spreads_;
  ErrorSpread pooled_;
  double machine_ = 0;
  std::vector<double> bias_;
  SymmetricMatrix covariance_{0};
};

}  // namespace rehearse
