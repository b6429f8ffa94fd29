// LAMB and Adafactor. Operands as in cpu/ops/optimizer_norms.cpp.

#include <algorithm>
#include <cmath>

#include "gpu_backend/cuda/check.hpp"
#include "gpu_backend/cuda/kernels/optimizer_norms.hpp"
#include "gpu_backend/cuda/ops/operands.hpp"

namespace rehearse::cuda {

namespace {

// ---- LAMB. scalars: learning rate, weight decay, beta 1, beta 2, epsilon

LambRule lamb_rule(const OperatorCall& c) {
  const auto& s = c.task->scalars;
  return {s.at(0), s.at(2), s.at(3), s.at(4), correction(c, s.at(2)), correction(c, s.at(3))};
}

/// Per parameter: gradient, weights, moments, sums of squares of weights and direction
void run_lamb_moments(const OperatorCall& c) {
  const LambRule rule = lamb_rule(c);
  ScratchInTurn scratch(c);
  for (std::size_t i = 0; i + 4 < c.operands.size(); i += 5) {
    const TensorView &g = c.operand(i), &w = c.operand(i + 1);
    lamb_moments(stream(c),
                 {reals(g), reals(w), reals(c.operand(i + 2)), reals(c.operand(i + 3)), reals(c.operand(i + 4)),
                  g.elements(), decay_of(c, w), is_matrix(w)},
                 rule, scratch.of(sum_scratch_bytes(g.elements())));
  }
}
/// Per parameter: weights, moments, sums of squares
void run_lamb(const OperatorCall& c) {
  const LambRule rule = lamb_rule(c);
  for (std::size_t i = 0; i + 3 < c.operands.size(); i += 4) {
    const TensorView& w = c.operand(i);
    lamb(stream(c),
         {{},
          reals(w),
          reals(c.operand(i + 1)),
          reals(c.operand(i + 2)),
          reals(c.operand(i + 3)),
          w.elements(),
          decay_of(c, w),
          is_matrix(w)},
         rule);
  }
}

// ---- Adafactor. scalars: learning rate, weight decay, epsilon 1, epsilon 2, clip threshold, decay exponent, relative
// step, scale by parameter

Places places_of(const TensorView& x) {
  Places out;
  out.rank = static_cast<int>(x.rank());
  if (out.rank > Places::kMaxRank)
    throw Error(ErrorKind::unavailable, "Adafactor's statistics of tensors of more than five dimensions", "cuda");
  for (std::size_t d = 0; d < x.rank(); ++d) {
    out.extents[d] = x.extent(d);
    out.shape[d] = x.held->shape[d];
    out.lines[d] = line(x, d);
  }
  out.flat = x.held->flat.first, out.stored = x.elements();
  return out;
}
FactoredMatrix matrix_of(const TensorView& weights, const TensorView& rows, const TensorView& columns) {
  FactoredMatrix m{places_of(weights), places_of(rows), places_of(columns), rows.held->shape.size() == 2, true};
  if (rows.held->sliced() || columns.held->sliced())
    throw Error(ErrorKind::unavailable, "Adafactor's statistics in slices", "cuda");
  m.rows_complete = rows.held->extents.back() == weights.held->shape[m.experts ? 1 : 0];
  return m;
}
double rows_of(const FactoredMatrix& m) { return static_cast<double>(m.weight.shape[m.experts ? 1 : 0]); }
double columns_of(const FactoredMatrix& m) {
  double n = 1;
  for (int d = m.experts ? 2 : 1; d < m.weight.rank; ++d) n *= static_cast<double>(m.weight.shape[d]);
  return n;
}
double* means_of(const OperatorCall& c, const FactoredMatrix& m, const Statistics& statistics, ScratchInTurn& scratch) {
  auto* means = static_cast<double*>(scratch.of(means_bytes(m)));
  factor_means(stream(c), statistics, m, means);
  return means;
}

/// Per parameter: gradient, weights, sum of the weights' squares; of a matrix then sums of squared gradients by row and
/// by column
void run_squares(const OperatorCall& c) {
  ScratchInTurn scratch(c);
  for (std::size_t i = 0; i + 2 < c.operands.size();) {
    const TensorView &g = c.operand(i), &w = c.operand(i + 1);
    const Counted weights{reals(w), w.elements()};
    square_sum(stream(c), &weights, 1, reals(c.operand(i + 2)), scratch.of(square_scratch_bytes(&weights, 1)));
    const bool matrix = is_matrix(w);
    if (matrix) {
      const FactoredMatrix m = matrix_of(w, c.operand(i + 3), c.operand(i + 4));
      factor_sums(stream(c), reals(g), {reals(c.operand(i + 3)), reals(c.operand(i + 4))}, m, c.task->scalars.at(2),
                  scratch.of(factor_scratch_bytes(m)));
    }
    i += matrix ? 5 : 3;
  }
}

PerStep<double> kept(const OperatorCall& c) {
  const auto at = [power = c.task->scalars.at(5)](std::int64_t step) {
    return 1 - std::pow(static_cast<double>(step + 1), -power);
  };
  return per_step(c, at(c.step), at);
}
/// Per parameter: gradient, sum of squares of the change before clipping; of a matrix then sum and statistic of rows,
/// and of columns; of a vector its second moment
void run_statistics(const OperatorCall& c) {
  const PerStep<double> keep = kept(c);
  ScratchInTurn parts(c), means(c);
  for (std::size_t i = 0; i + 2 < c.operands.size();) {
    const TensorView &g = c.operand(i), &change = c.operand(i + 1);
    void* scratch = parts.of(sum_scratch_bytes(g.elements()));
    if (!is_matrix(g)) {
      whole_change(stream(c), reals(g), reals(c.operand(i + 2)), g.elements(), c.task->scalars.at(2), keep,
                   reals(change), scratch);
      i += 3;
      continue;
    }
    const TensorView &rows = c.operand(i + 3), &columns = c.operand(i + 5);
    const FactoredMatrix m = matrix_of(g, rows, columns);
    blend(stream(c), reals(c.operand(i + 2)), reals(rows), rows.elements(), columns_of(m), keep);
    blend(stream(c), reals(c.operand(i + 4)), reals(columns), columns.elements(), rows_of(m), keep);
    const Statistics statistics{reals(rows), reals(columns)};
    factored_change(stream(c), reals(g), statistics, m, means_of(c, m, statistics, means), reals(change), scratch);
    i += 6;
  }
}

AdafactorRule adafactor_rule(const OperatorCall& c, const TensorView& weights) {
  const auto& s = c.task->scalars;
  const auto rate = [relative = s.at(6) != 0, given = s.at(0)](std::int64_t step) {
    return relative ? std::min(1e-2, 1 / std::sqrt(static_cast<double>(step + 1))) : given;
  };
  double elements = 1;
  for (const std::int64_t d : weights.held->shape) elements *= static_cast<double>(d);
  return {per_step(c, rate(c.step), rate), decay_of(c, weights), s.at(3), s.at(4), elements, s.at(7) != 0};
}
/// Per parameter: gradient, weights, sums of squares of weights and change; of a matrix then statistics of rows and
/// columns, of a vector its second moment
void run_adafactor(const OperatorCall& c) {
  ScratchInTurn means(c);
  for (std::size_t i = 0; i + 4 < c.operands.size();) {
    const TensorView &g = c.operand(i), &w = c.operand(i + 1), &size = c.operand(i + 2), &change = c.operand(i + 3);
    const AdafactorRule rule = adafactor_rule(c, w);
    if (!is_matrix(w)) {
      adafactor_vector(stream(c), reals(g), reals(w), reals(size), reals(change), reals(c.operand(i + 4)), w.elements(),
                       rule);
      i += 5;
      continue;
    }
    const Statistics statistics{reals(c.operand(i + 4)), reals(c.operand(i + 5))};
    const FactoredMatrix m = matrix_of(w, c.operand(i + 4), c.operand(i + 5));
    adafactor(stream(c), reals(g), reals(w), reals(size), reals(change), statistics, m,
              means_of(c, m, statistics, means), rule);
    i += 6;
  }
}

[[maybe_unused]] const bool registered_optimizer_norms =
    cuda_operators().add({"optimizer.lamb_moments", "LAMB's moments and norms", {}, any(run_lamb_moments)}) &&
    cuda_operators().add({"optimizer.lamb", "LAMB's step", {}, any(run_lamb)}) &&
    cuda_operators().add({"square_sum.adafactor", "sums of squares by row and column", {}, any(run_squares)}) &&
    cuda_operators().add({"statistics.adafactor", "Adafactor's factored second moment", {}, any(run_statistics)}) &&
    cuda_operators().add({"optimizer.adafactor", "Adafactor's step", {}, any(run_adafactor)});

}  // namespace

}  // namespace rehearse::cuda
