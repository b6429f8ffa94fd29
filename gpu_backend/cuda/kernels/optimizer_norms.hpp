#pragma once
// Launchers of updates that need numbers of whole tensors, as kernels.hpp has them: LAMB and Adafactor. Moments and
// statistics are stored in the type of sums.

#include "gpu_backend/cuda/kernels/kernels.hpp"

namespace rehearse::cuda {

// ---- LAMB

/// `norms`: sums of squares of the weights and of the direction. `scaled`: whether their ratio scales the step.
struct LambTensor {
  Reals gradient, weights, first, second, norms;
  std::int64_t n;
  double decay;
  bool scaled;
};
struct LambRule {
  double rate, beta1, beta2, epsilon;
  PerStep<double> correct1, correct2;
};
/// Updates the moments and writes the norms. `scratch` holds sum_scratch_bytes() of the tensor.
void lamb_moments(cudaStream_t, const LambTensor& tensor, const LambRule& rule, void* scratch);
void lamb(cudaStream_t, const LambTensor& tensor, const LambRule& rule);

// ---- Adafactor

/// What a rank holds of a tensor, by global coordinates.
struct Places {
  static constexpr int kMaxRank = 5;
  int rank = 0;
  std::int64_t extents[kMaxRank] = {};  ///< Stored.
  std::int64_t shape[kMaxRank] = {};    ///< Global; beyond is padding.
  Line lines[kMaxRank] = {};
  std::int64_t flat = 0, stored = 0;  ///< Element that storage begins with, and how many it has.
};
/// A weight [experts where there are any, rows, columns...], whose experts are matrices of their own, and its
/// statistics [experts, rows] and [experts, columns...].
struct FactoredMatrix {
  Places weight, rows, columns;
  bool experts = false;
  /// Which statistics hold all of an expert's, so that their mean is the whole's.
  bool rows_complete = true;
};
struct Statistics {
  Reals rows, columns;
};

[[nodiscard]] std::size_t sum_scratch_bytes(std::int64_t n);
[[nodiscard]] std::size_t factor_scratch_bytes(const FactoredMatrix& m);
[[nodiscard]] std::size_t means_bytes(const FactoredMatrix& m);
/// Sums of squared gradients plus epsilon, by row and by column. `scratch` holds factor_scratch_bytes().
void factor_sums(cudaStream_t, Reals gradient, const Statistics& sums, const FactoredMatrix& m, double epsilon,
                 void* scratch);
/// statistic = keep * statistic + (1 - keep) * sum / over
void blend(cudaStream_t, Reals sum, Reals statistic, std::int64_t n, double over, PerStep<double> keep);
/// Mean of the statistics of each expert held. `means` holds means_bytes().
void factor_means(cudaStream_t, const Statistics& statistics, const FactoredMatrix& m, double* means);
/// Sum of gradient^2 / second moment. `scratch` holds sum_scratch_bytes() of the elements.
void factored_change(cudaStream_t, Reals gradient, const Statistics& statistics, const FactoredMatrix& m,
                     const double* means, Reals change, void* scratch);
/// The same of a vector, whose second moment is updated first.
void whole_change(cudaStream_t, Reals gradient, Reals second, std::int64_t n, double epsilon, PerStep<double> keep,
                  Reals change, void* scratch);

/// `size` and `change`: sums of squares of the weights and of the change, over `elements` in all.
struct AdafactorRule {
  PerStep<double> rate;
  double decay, smallest, threshold, elements;
  bool by_size;
};
void adafactor(cudaStream_t, Reals gradient, Reals weights, Reals size, Reals change, const Statistics& statistics,
               const FactoredMatrix& m, const double* means, const AdafactorRule& rule);
void adafactor_vector(cudaStream_t, Reals gradient, Reals weights, Reals size, Reals change, Reals second,
                      std::int64_t n, const AdafactorRule& rule);

}  // namespace rehearse::cuda
