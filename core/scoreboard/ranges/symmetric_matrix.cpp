#include "core/scoreboard/ranges/symmetric_matrix.hpp"

#include <numeric>

namespace rehearse {

SymmetricMatrix SymmetricMatrix::inverse() const {
  SymmetricMatrix out = *this;
  std::vector<double>& a = out.values_;
  for (std::size_t k = 0; k < rows_; ++k) {
    const double pivot = 1 / a[k * rows_ + k];
    a[k * rows_ + k] = 1;
    for (std::size_t j = 0; j < rows_; ++j) a[k * rows_ + j] *= pivot;
    for (std::size_t i = 0; i < rows_; ++i) {
      if (i == k) continue;
      const double factor = a[i * rows_ + k];
      a[i * rows_ + k] = 0;
      for (std::size_t j = 0; j < rows_; ++j) a[i * rows_ + j] -= factor * a[k * rows_ + j];
    }
  }
  return out;
}

std::vector<double> SymmetricMatrix::times(const std::vector<double>& vector) const {
  std::vector<double> out(rows_);
  for (std::size_t i = 0; i < rows_; ++i)
    for (std::size_t j = 0; j < rows_; ++j) out[i] += values_[i * rows_ + j] * vector[j];
  return out;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace rehearse
