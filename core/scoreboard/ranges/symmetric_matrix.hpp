#pragma once
// The little linear algebra that source_effects needs: symmetric, positive definite, a few dozen rows.

#include <cstddef>
#include <vector>

namespace rehearse {

class SymmetricMatrix {
 public:
  explicit SymmetricMatrix(std::size_t rows) : rows_(rows), values_(rows * rows) {}

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] double operator()(std::size_t i, std::size_t j) const { return values_[i * rows_ + j]; }
  /// Adds to the elements (i, j) and (j, i); once where they are the same.
  void add(std::size_t i, std::size_t j, double value) {
    values_[i * rows_ + j] += value;
    if (i != j) values_[j * rows_ + i] += value;
  }

  /// By Gauss and Jordan without exchange of rows, which positive definite matrices don't need.
  [[nodiscard]] SymmetricMatrix inverse() const;
  [[nodiscard]] std::vector<double> times(const std::vector<double>& vector) const;

 private:
  std::size_t rows_;
  std::vector<double> values_;
};

[[nodiscard]] double dot(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace rehearse
