#pragma once
// What is known of a job's error, by whether the framework that runs it was measured.
//
// Two fits of SourceEffects stand behind every range. The first is made of first errors: what a source that nobody has
// seen may hold, whatever runs there. The second is made of sources whose framework is known, most of them sources that
// mechanisms were mended on. Their errors came out smaller than a new source's would, so that their variances are drawn
// towards those of the first errors.

#include <vector>

#include "core/scoreboard/ranges/source_effects.hpp"

namespace rehearse {

/// What is known of jobs of one kind, and on how many sources and rows that rests. Texts of `kind` that are empty stand
/// for jobs of which they aren't known, or were never measured.
struct RangeCell {
  PredictionKind kind;
  int sources = 0, rows = 0;
  ErrorOutlook outlook;
};

class RangeFit {
 public:
  /// `groups` must hold first errors of several rows.
  explicit RangeFit(const std::vector<ErrorGroup>& groups);

  /// Of a framework that some source ran this kind of model in, from those sources; on a generation that none of them
  /// had, less sure by what generations differ. Of any other framework, and of none, from first errors.
  [[nodiscard]] ErrorOutlook outlook(const PredictionKind& kind) const;
  /// One for each kind of job that groups tell apart, and for each with generation, framework and model unknown.
  [[nodiscard]] std::vector<RangeCell> cells() const;

 private:
  [[nodiscard]] bool measured(const PredictionKind& kind) const;

  std::vector<ErrorGroup> groups_;
  SourceEffects first_;
  std::vector<SourceEffects> known_;  ///< Of sources whose framework is known: one, or none.
};

}  // namespace rehearse
