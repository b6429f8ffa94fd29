#include <algorithm>
#include <cmath>

#include "core/search/search.hpp"

namespace rehearse {

const std::vector<std::string>& objective_names() {
  static const std::vector<std::string> names{"step_time", "tokens_per_s_per_gpu", "cost_per_token", "energy_per_token",
                                              "memory"};
  return names;
}

namespace {

/// To 12 digits: beyond, two plans of equal work differ by the order of their sums.
double rounded(double value) {
  if (!(value > 0) || !std::isfinite(value)) return value;
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 11);
  return std::round(value / unit) * unit;
}

}  // namespace

void rank(std::vector<Found>& found, Objective objective) {
  const auto key = [objective](const Found& f) {
    const double time = rounded(f.evaluation.time().value()), memory = f.evaluation.needed.value();
    const bool small = objective == Objective::memory;
    return std::make_tuple(!f.evaluation.played.has_value(), small ? memory : time, small ? time : memory, f.order);
  };
  std::sort(found.begin(), found.end(), [&](const Found& a, const Found& b) { return key(a) < key(b); });
  const auto equal = [](const Found& a, const Found& b) {
    return a.evaluation.played == b.evaluation.played && a.evaluation.step_time == b.evaluation.step_time &&
           a.evaluation.needed == b.evaluation.needed;
  };
  found.erase(std::unique(found.begin(), found.end(), equal), found.end());
}

void add_to_front(std::vector<Found>& front, const Found& found) {
  const auto& e = found.evaluation;
  const auto beaten_by = [](const Evaluation& a, const Evaluation& b) {
    return b.step_time <= a.step_time && b.needed <= a.needed;
  };
  if (std::any_of(front.begin(), front.end(), [&](const Found& f) { return beaten_by(e, f.evaluation); })) return;
  std::erase_if(front, [&](const Found& f) { return beaten_by(f.evaluation, e); });
  front.insert(
      std::upper_bound(front.begin(), front.end(), found,
                       [](const Found& a, const Found& b) { return a.evaluation.step_time < b.evaluation.step_time; }),
      found);
}

}  // namespace rehearse
