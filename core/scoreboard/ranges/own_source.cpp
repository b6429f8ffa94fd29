#include "core/scoreboard/ranges/own_source.hpp"

#include <cmath>

namespace rehearse {

namespace {

/// What two steps of one source have in common.
double covariance(const ErrorOutlook& a, const PredictionKind& of_a, const ErrorOutlook& b,
                  const PredictionKind& of_b) {
  double out = std::sqrt(a.source_variance * b.source_variance);
  if (of_a.model != of_b.model) return out;
  out += std::sqrt(a.bias_variance * b.bias_variance);
  if (of_a.generation == of_b.generation) out += std::sqrt(a.machine_variance * b.machine_variance);
  return out;
}

}  // namespace

ErrorOutlook outlook_with_own(const ErrorOutlook& before, const PredictionKind& kind,
                              const std::vector<OwnErrors>& own) {
  ErrorOutlook out = before;
  double squares = 0, degrees = 0;
  for (const OwnErrors& o : own) {
    squares += (o.group.rows - 1) * o.group.deviation * o.group.deviation;
    degrees += o.group.rows - 1;
  }
  SymmetricMatrix seen(own.size());
  std::vector<double> shared, residual;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto& [group, known] = own[i];
    for (std::size_t j = 0; j <= i; ++j)
      seen.add(i, j, covariance(known, group.kind, own[j].before, own[j].group.kind));
    // Of the kind's own parts, those that it shares with nothing.
    seen.add(i, i, known.rest().of_source(squares, degrees).variance / group.rows);
    shared.push_back(covariance(before, kind, known, group.kind));
    residual.push_back(group.mean - known.bias);
  }
  const SymmetricMatrix precision = seen.inverse();
  const std::vector<double> weights = precision.times(shared);
  out.bias += dot(weights, residual);
  out.bias_variance += before.source_variance + before.machine_variance - dot(weights, shared);
  out.source_variance = out.machine_variance = 0;
  const RestSpread rest = before.rest().of_source(squares, degrees);
  out.rest_variance = rest.variance;
  out.rest_uneven = rest.uneven;
  return out;
}

}  // namespace rehearse
