#pragma once
// What operators of every device read off the operands of a call: what their shapes mean, and which are whose.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "gpu_backend/execute/operator.hpp"

namespace rehearse {

/// Rows of an activation of so many features each: tokens, or images.
[[nodiscard]] inline std::int64_t row_count(const TensorView& x, std::int64_t features) {
  return x.elements() / std::max<std::int64_t>(1, features);
}
/// Features of an activation of so many rows.
[[nodiscard]] inline std::int64_t feature_count(const TensorView& x, std::int64_t rows) {
  return rows > 0 ? x.elements() / rows : 0;
}
/// Features of a row.
[[nodiscard]] inline std::int64_t row_width(const TensorView& rows) { return rows.rank() > 1 ? rows.from(1) : 1; }

/// Row, within a sample of `whole`, of the first of `n` that `piece` holds too, one after the other.
[[nodiscard]] inline std::int64_t place_of(const TensorView& piece, const TensorView& whole, std::int64_t n) {
  if (whole.extent(1) == n) return 0;
  const std::int64_t first = piece.held->global_index(1, 0);
  std::int64_t row = 0;
  while (whole.held->global_index(1, row) != first) ++row;
  return row;
}

/// Operands that hold rows: neither counts nor what stands before `first`.
[[nodiscard]] inline std::vector<const TensorView*> rows_from(const OperatorCall& c, std::size_t first) {
  std::vector<const TensorView*> out;
  for (std::size_t i = first; i < c.operands.size(); ++i)
    if (c.operand(i).type != ElementType::int64) out.push_back(&c.operand(i));
  return out;
}
/// Counts that came from other ranks may not lead beyond a buffer of `room` rows: throws Error (check_failed) where
/// `rows` of them, which end at row `end`, do.
inline void check_room(const OperatorCall& c, std::int64_t end, std::int64_t rows, std::int64_t room) {
  if (rows < 0 || end > room)
    throw Error(ErrorKind::check_failed,
                fmt::format("{}: counts of {} rows, with room for {}", operator_name(*c.task), end, room));
}

/// Whether a convolution of `image` is a transposed one, which makes sides longer.
[[nodiscard]] inline bool transposed(const OperatorCall& c, const TensorView& image) {
  return c.task->scalars.at(4 * (image.rank() - 2) + 1) != 0;
}

/// Whether weights are more than a vector, as biases and norms are.
[[nodiscard]] inline bool is_matrix(const TensorView& weights) { return weights.held->shape.size() >= 2; }

}  // namespace rehearse
