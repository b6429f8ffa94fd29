#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/published/fit/fit.hpp"

namespace rehearse {
namespace {

using Point = std::vector<double>;
struct Corner {
  Point x;
  double value;
};

class Simplex {
 public:
  Simplex(const std::function<double(std::span<const double>)>& f, const Corner& best, double step, int& evaluations)
      : f_(f), evaluations_(evaluations) {
    corners_.push_back(best);
    for (std::size_t i = 0; i < best.x.size(); ++i) {
      Point x = best.x;
      x[i] += step;
      corners_.push_back(evaluate(std::move(x)));
    }
  }

  Corner descend(const MinimiserOptions& options) {
    for (;;) {
      std::stable_sort(corners_.begin(), corners_.end(),
                       [](const Corner& a, const Corner& b) { return a.value < b.value; });
      if (converged(options.tolerance) || evaluations_ >= options.max_evaluations) return corners_.front();
      step();
    }
  }

 private:
  Corner evaluate(Point x) {
    ++evaluations_;
    const double v = f_(x);
    return {std::move(x), std::isfinite(v) ? v : 1e300};
  }

  [[nodiscard]] bool converged(double tolerance) const {
    for (std::size_t i = 1; i < corners_.size(); ++i)
      for (std::size_t d = 0; d < corners_[i].x.size(); ++d)
        if (std::abs(corners_[i].x[d] - corners_[0].x[d]) > tolerance) return false;
    return true;
  }

  // The point at `t` on the line from the centre of all corners but the worst through the worst (t = -1 mirrors it).
  [[nodiscard]] Point along(double t) const {
    const std::size_t n = corners_.size() - 1;
    Point x(n, 0.0);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t d = 0; d < n; ++d) x[d] += corners_[i].x[d] / static_cast<double>(n);
    for (std::size_t d = 0; d < n; ++d) x[d] += t * (corners_[n].x[d] - x[d]);
    return x;
  }

  void step() {
    Corner& worst = corners_.back();
    const double second = corners_[corners_.size() - 2].value;
    Corner mirrored = evaluate(along(-1));
    if (mirrored.value < corners_.front().value) {
      Corner further = evaluate(along(-2));
      worst = further.value < mirrored.value ? std::move(further) : std::move(mirrored);
      return;
    }
    if (mirrored.value < second) {
      worst = std::move(mirrored);
      return;
    }
    const bool outside = mirrored.value < worst.value;
    Corner nearer = evaluate(along(outside ? -0.5 : 0.5));
    if (nearer.value < std::min(worst.value, mirrored.value)) {
      worst = std::move(nearer);
      return;
    }
    shrink();
  }

  void shrink() {
    for (std::size_t i = 1; i < corners_.size(); ++i) {
      Point x = corners_[i].x;
      for (std::size_t d = 0; d < x.size(); ++d) x[d] = (x[d] + corners_[0].x[d]) / 2;
      corners_[i] = evaluate(std::move(x));
    }
  }

  const std::function<double(std::span<const double>)>& f_;
  int& evaluations_;
  std::vector<Corner> corners_;
};

double percentile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const auto high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace

Minimum minimise(const std::function<double(std::span<const double>)>& objective, std::vector<double> start,
                 const MinimiserOptions& options) {
  int evaluations = 1;
  Corner best{start, objective(start)};
  double step = options.step;
  for (int i = 0; i <= options.restarts && evaluations < options.max_evaluations; ++i) {
    best = Simplex(objective, best, step, evaluations).descend(options);
    step *= -0.5;
  }
  return {best.x, best.value, evaluations};
}

double soft_l1(double r, double d) { return 2 * d * d * (std::sqrt(1 + (r / d) * (r / d)) - 1); }

ErrorSummary summarise_errors(std::span<const double> predicted, std::span<const double> measured) {
  if (predicted.empty()) return {};
  std::vector<double> signed_errors(predicted.size());
  for (std::size_t i = 0; i < predicted.size(); ++i) signed_errors[i] = predicted[i] / measured[i] - 1;
  std::vector<double> sizes(signed_errors);
  for (double& e : sizes) e = std::abs(e);
  std::sort(signed_errors.begin(), signed_errors.end());
  std::sort(sizes.begin(), sizes.end());
  return {static_cast<int>(sizes.size()), percentile(sizes, 0.5), percentile(sizes, 0.9),
          percentile(signed_errors, 0.5)};
}

}  // namespace rehearse
