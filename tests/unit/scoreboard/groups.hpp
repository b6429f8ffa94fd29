#pragma once
// Groups of errors as tests of ranges make them.

#include <random>
#include <string>
#include <vector>

#include "core/scoreboard/ranges/error_groups.hpp"

namespace rehearse::test {

/// First errors with this mean and deviation, of dense models on hopper.
inline ErrorGroup first_errors(const std::string& source, double mean, double deviation = 0.1, int rows = 10,
                               const PredictionKind& kind = {"dense", "hopper", ""}) {
  ErrorGroup out{source, kind, rows, mean, deviation};
  out.first = true;
  return out;
}

/// Sources whose effects and rests are drawn, with a tenth of bias: `between` and `within` are standard deviations.
inline std::vector<ErrorGroup> drawn_sources(int sources, double between, double within, unsigned seed,
                                             const PredictionKind& kind = {"dense", "hopper", ""}, bool first = true) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<ErrorGroup> out;
  for (int i = 0; i < sources; ++i) {
    const double effect = 0.1 + between * normal(random);
    std::vector<double> errors;
    for (int row = 0; row < 12; ++row) errors.push_back(effect + within * normal(random));
    out.push_back(group_of((first ? "blind " : "seen ") + std::to_string(i), kind, std::move(errors)));
    out.back().first = first;
  }
  return out;
}

}  // namespace rehearse::test
