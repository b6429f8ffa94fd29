// Updates that need numbers of whole tensors, of which a rank may hold a part: LAMB (You et al. 2020, algorithm 2) and
// Adafactor (Shazeer & Stern 2018, algorithms 4 and 5).

#include <cmath>

#include "core/base/index.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/execute/operands.hpp"

namespace rehearse {

namespace {

// ---- LAMB. scalars: learning rate, weight decay, beta 1, beta 2, epsilon

/// m / (sqrt(v) + epsilon) + decay * w, the moments corrected for their start.
template <class T>
class LambDirection {
 public:
  explicit LambDirection(const OperatorCall& c, const TensorView& weights)
      : decay_(is_matrix(weights) ? c.task->scalars.at(1) : 0.0), epsilon_(c.task->scalars.at(4)) {
    const auto t = static_cast<double>(c.step + 1);
    first_ = 1 - std::pow(c.task->scalars.at(2), t);
    second_ = 1 - std::pow(c.task->scalars.at(3), t);
  }
  [[nodiscard]] T operator()(T w, T m, T v) const {
    return static_cast<T>(static_cast<double>(m) / first_ / (std::sqrt(static_cast<double>(v) / second_) + epsilon_) +
                          decay_ * static_cast<double>(w));
  }

 private:
  double decay_, epsilon_, first_ = 1, second_ = 1;
};

/// Per parameter: gradient, weights, moments, sums of squares of weights and direction
template <class T>
struct LambMoments {
  static void run(const OperatorCall& c) {
    const T b1 = static_cast<T>(c.task->scalars.at(2)), b2 = static_cast<T>(c.task->scalars.at(3));
    for (std::size_t i = 0; i + 4 < c.operands.size(); i += 5) {
      const T *g = c.operand(i).as<T>(), *w = c.operand(i + 1).as<T>();
      T *m = c.operand(i + 2).as<T>(), *v = c.operand(i + 3).as<T>(), *norms = c.operand(i + 4).as<T>();
      const LambDirection<T> direction(c, c.operand(i + 1));
      norms[0] = norms[1] = T{0};
      for (std::int64_t j = 0; j < c.operand(i).elements(); ++j) {
        m[j] = b1 * m[j] + (T{1} - b1) * g[j];
        v[j] = b2 * v[j] + (T{1} - b2) * g[j] * g[j];
        const T r = direction(w[j], m[j], v[j]);
        norms[0] += w[j] * w[j];
        norms[1] += r * r;
      }
    }
  }
};

/// Per parameter: weights, moments, sums of squares. Vectors (biases, norms) take the step as it is, as the authors'
/// code does.
template <class T>
struct Lamb {
  static void run(const OperatorCall& c) {
    const T rate = static_cast<T>(c.task->scalars.at(0));
    for (std::size_t i = 0; i + 3 < c.operands.size(); i += 4) {
      T* w = c.operand(i).as<T>();
      const T *m = c.operand(i + 1).as<T>(), *v = c.operand(i + 2).as<T>(), *norms = c.operand(i + 3).as<T>();
      const LambDirection<T> direction(c, c.operand(i));
      const bool scaled = is_matrix(c.operand(i)) && norms[0] > 0 && norms[1] > 0;
      const T trust = scaled ? std::sqrt(norms[0] / norms[1]) : T{1};
      for (std::int64_t j = 0; j < c.operand(i).elements(); ++j) w[j] -= rate * trust * direction(w[j], m[j], v[j]);
    }
  }
};

// ---- Adafactor. scalars: learning rate, weight decay, epsilon 1, epsilon 2, clip threshold, decay exponent, relative
// step, scale by parameter

/// A weight as one matrix per expert (elsewhere one), by the elements a rank holds: where each finds its row's and
/// column's statistics.
class Matrix {
 public:
  Matrix(const TensorView& weights, const TensorView& rows, const TensorView& columns)
      : at_(weights.held->global_elements()) {
    const auto& shape = weights.held->shape;
    const bool experts = rows.held->shape.size() == 2;
    height_ = shape[experts ? 1 : 0];
    width_ = 1;
    for (std::size_t d = experts ? 2 : 1; d < shape.size(); ++d) width_ *= shape[d];
    row_at_ = inverse(rows), column_at_ = inverse(columns);
    rows_complete_ = rows.held->extents.back() == height_;
  }

  struct Place {
    std::size_t row, column;
  };
  /// False for padding.
  bool find(std::int64_t i, Place& p) const {
    const std::int64_t e = nth(at_, i);
    if (e < 0) return false;
    const std::int64_t row = e / width_, expert = row / height_;
    p = {static_cast<std::size_t>(nth(row_at_, row)),
         static_cast<std::size_t>(nth(column_at_, expert * width_ + e % width_))};
    return true;
  }
  [[nodiscard]] std::int64_t elements() const { return static_cast<std::int64_t>(at_.size()); }
  [[nodiscard]] double height() const { return static_cast<double>(height_); }
  [[nodiscard]] double width() const { return static_cast<double>(width_); }
  /// Mean of the row statistics of each expert held, which is that of its columns: of whichever a rank holds all.
  template <class T>
  [[nodiscard]] std::vector<double> means(const TensorView& rows, const TensorView& columns) const {
    const TensorView& x = rows_complete_ ? rows : columns;
    const std::int64_t n = rows_complete_ ? height_ : width_;
    std::vector<double> out(static_cast<std::size_t>(x.elements() / n), 0.0);
    for (std::int64_t i = 0; i < x.elements(); ++i)
      nth(out, i / n) += static_cast<double>(x.as<T>()[i]) / static_cast<double>(n);
    return out;
  }
  /// Second moment at a place: the product of its row's and its column's statistics over the mean.
  template <class T>
  [[nodiscard]] double moment(const TensorView& rows, const TensorView& columns, const std::vector<double>& means,
                              const Place& p) const {
    const std::size_t expert =
        rows_complete_ ? p.row / static_cast<std::size_t>(height_) : p.column / static_cast<std::size_t>(width_);
    return static_cast<double>(rows.as<T>()[p.row]) * static_cast<double>(columns.as<T>()[p.column]) / means[expert];
  }

 private:
  static std::vector<std::int64_t> inverse(const TensorView& x) {
    std::int64_t n = 1;
    for (const std::int64_t d : x.held->shape) n *= d;
    std::vector<std::int64_t> out(static_cast<std::size_t>(n), -1);
    const auto at = x.held->global_elements();
    for (std::size_t i = 0; i < at.size(); ++i)
      if (at[i] >= 0) nth(out, at[i]) = static_cast<std::int64_t>(i);
    return out;
  }

  std::vector<std::int64_t> at_, row_at_, column_at_;
  std::int64_t height_ = 1, width_ = 1;
  bool rows_complete_ = true;
};

/// Per parameter: gradient, weights, sum of the weights' squares; of a matrix then sums of squared gradients by row and
/// by column
template <class T>
struct AdafactorSquares {
  static void run(const OperatorCall& c) {
    const double epsilon = c.task->scalars.at(2);
    for (std::size_t i = 0; i + 2 < c.operands.size();) {
      const TensorView &g = c.operand(i), &w = c.operand(i + 1), &size = c.operand(i + 2);
      const bool matrix = is_matrix(w);
      size.as<T>()[0] = T{0};
      for (std::int64_t j = 0; j < w.elements(); ++j) size.as<T>()[0] += w.as<T>()[j] * w.as<T>()[j];
      if (matrix) add(g, c.operand(i + 3), c.operand(i + 4), Matrix(w, c.operand(i + 3), c.operand(i + 4)), epsilon);
      i += matrix ? 5 : 3;
    }
  }
  static void add(const TensorView& g, const TensorView& rows, const TensorView& columns, const Matrix& m,
                  double epsilon) {
    std::fill_n(rows.as<T>(), rows.elements(), T{0});
    std::fill_n(columns.as<T>(), columns.elements(), T{0});
    Matrix::Place p{};
    for (std::int64_t j = 0; j < m.elements(); ++j) {
      if (!m.find(j, p)) continue;
      const T square = g.as<T>()[j] * g.as<T>()[j] + static_cast<T>(epsilon);
      rows.as<T>()[p.row] += square;
      columns.as<T>()[p.column] += square;
    }
  }
};

double kept(const OperatorCall& c) { return 1 - std::pow(static_cast<double>(c.step + 1), -c.task->scalars.at(5)); }

/// Per parameter: gradient, sum of squares of the change before clipping; of a matrix then sum and statistic of rows,
/// and of columns; of a vector its second moment
template <class T>
struct AdafactorStatistics {
  static void run(const OperatorCall& c) {
    for (std::size_t i = 0; i + 2 < c.operands.size();) {
      const TensorView &g = c.operand(i), &change = c.operand(i + 1);
      const bool matrix = g.held->shape.size() >= 2;
      change.as<T>()[0] = T{0};
      if (matrix)
        factored(c, g, change, i + 2);
      else
        whole(c, g, change, c.operand(i + 2));
      i += matrix ? 6 : 3;
    }
  }
  static void whole(const OperatorCall& c, const TensorView& g, const TensorView& change, const TensorView& v) {
    const T keep = static_cast<T>(kept(c));
    for (std::int64_t j = 0; j < g.elements(); ++j) {
      const T square = g.as<T>()[j] * g.as<T>()[j];
      v.as<T>()[j] = keep * v.as<T>()[j] + (T{1} - keep) * (square + static_cast<T>(c.task->scalars.at(2)));
      change.as<T>()[0] += square / v.as<T>()[j];
    }
  }
  static void factored(const OperatorCall& c, const TensorView& g, const TensorView& change, std::size_t at) {
    const TensorView &row_sum = c.operand(at), &rows = c.operand(at + 1), &column_sum = c.operand(at + 2),
                     &columns = c.operand(at + 3);
    const Matrix m(g, rows, columns);
    blend(c, row_sum, rows, m.width());
    blend(c, column_sum, columns, m.height());
    const std::vector<double> means = m.template means<T>(rows, columns);
    Matrix::Place p{};
    for (std::int64_t j = 0; j < m.elements(); ++j)
      if (m.find(j, p)) {
        const auto gradient = static_cast<double>(g.as<T>()[j]);
        change.as<T>()[0] += static_cast<T>(gradient * gradient / m.template moment<T>(rows, columns, means, p));
      }
  }
  /// Sums become means, and means the running ones.
  static void blend(const OperatorCall& c, const TensorView& sum, const TensorView& statistic, double over) {
    const T keep = static_cast<T>(kept(c));
    for (std::int64_t j = 0; j < sum.elements(); ++j)
      statistic.as<T>()[j] = keep * statistic.as<T>()[j] + (T{1} - keep) * sum.as<T>()[j] / static_cast<T>(over);
  }
};

/// Per parameter: gradient, weights, sums of squares of weights and change; of a matrix then statistics of rows and
/// columns, of a vector its second moment
template <class T>
struct Adafactor {
  static void run(const OperatorCall& c) {
    for (std::size_t i = 0; i + 4 < c.operands.size();) {
      const TensorView &g = c.operand(i), &w = c.operand(i + 1);
      const bool matrix = is_matrix(w);
      double n = 1;
      for (const std::int64_t d : w.held->shape) n *= static_cast<double>(d);
      const double size = std::sqrt(static_cast<double>(c.operand(i + 2).as<T>()[0]) / n),
                   change = std::sqrt(static_cast<double>(c.operand(i + 3).as<T>()[0]) / n);
      const double step = step_of(c, size) / std::max(1.0, change / c.task->scalars.at(4));
      const double decay = matrix ? c.task->scalars.at(1) * step_of(c, size) : 0.0;
      const auto move = [&](std::int64_t j, double v) {
        w.as<T>()[j] -= static_cast<T>(step * static_cast<double>(g.as<T>()[j]) / std::sqrt(v) +
                                       decay * static_cast<double>(w.as<T>()[j]));
      };
      if (matrix) {
        const TensorView &rows = c.operand(i + 4), &columns = c.operand(i + 5);
        const Matrix m(w, rows, columns);
        const std::vector<double> means = m.template means<T>(rows, columns);
        Matrix::Place p{};
        for (std::int64_t j = 0; j < m.elements(); ++j)
          if (m.find(j, p)) move(j, m.template moment<T>(rows, columns, means, p));
      } else {
        for (std::int64_t j = 0; j < w.elements(); ++j) move(j, static_cast<double>(c.operand(i + 4).as<T>()[j]));
      }
      i += matrix ? 6 : 5;
    }
  }
  static double step_of(const OperatorCall& c, double size) {
    const auto& s = c.task->scalars;
    const double rate = s.at(6) != 0 ? std::min(1e-2, 1 / std::sqrt(static_cast<double>(c.step + 1))) : s.at(0);
    return s.at(7) != 0 ? rate * std::max(s.at(3), size) : rate;
  }
};

[[maybe_unused]] const bool registered_optimizer_norms =
    cpu_operators().add({"optimizer.lamb_moments", "LAMB's moments and norms", {}, both<LambMoments>()}) &&
    cpu_operators().add({"optimizer.lamb", "LAMB's step", {}, both<Lamb>()}) &&
    cpu_operators().add({"square_sum.adafactor", "sums of squares by row and column", {}, both<AdafactorSquares>()}) &&
    cpu_operators().add(
        {"statistics.adafactor", "Adafactor's factored second moment", {}, both<AdafactorStatistics>()}) &&
    cpu_operators().add({"optimizer.adafactor", "Adafactor's step", {}, both<Adafactor>()});

}  // namespace

}  // namespace rehearse
