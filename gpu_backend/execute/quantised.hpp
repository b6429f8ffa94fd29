#pragma once
// What a task that casts to fp8 says, for the operators of every device.

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/program/fp8_format.hpp"
#include "gpu_backend/execute/operator.hpp"

namespace rehearse {

/// Its first three scalars.
[[nodiscard]] inline Fp8Format fp8_format(const ComputeTask& t) {
  return {static_cast<int>(t.scalars.at(0)), static_cast<int>(t.scalars.at(1)), t.scalars.at(2)};
}
/// The fourth: what is cast is an input (0), a weight (1) or a gradient (2).
[[nodiscard]] inline std::size_t fp8_role(const ComputeTask& t) { return static_cast<std::size_t>(t.scalars.at(3)); }
/// Formats of the roles where scales are those of the step before.
inline constexpr Fp8Format kFormatOfRole[]{kE4m3, kE4m3, kE5m2};

/// Calls visit(number, what is read, copy by rows, copy by columns) for each tensor, whose operands stand in this order
/// from `first` on; null where no such copy is made: scalars 4 and 5.
template <class Visit>
void for_each_cast(const OperatorCall& c, std::size_t first, Visit visit) {
  const bool rows = c.task->scalars.at(4) != 0, columns = c.task->scalars.at(5) != 0;
  std::size_t number = 0;
  for (std::size_t i = first; i < c.operands.size(); ++number) {
    const TensorView& from = c.operand(i++);
    const TensorView* row_copy = rows ? &c.operand(i++) : nullptr;
    const TensorView* column_copy = columns ? &c.operand(i++) : nullptr;
    visit(number, from, row_copy, column_copy);
  }
}

/// Blocks of a matrix that share a scale: `along` elements of a row, of one row or, for weights, of `weight_high`.
/// Columns take theirs the other way round.
struct Fp8Blocks {
  std::int64_t along, weight_high;
  bool power_of_two;  ///< Scales are rounded down to one.
};
inline constexpr Fp8Blocks kRowwise{std::numeric_limits<std::int64_t>::max() / 4, 1, false},
    kBlockwise{128, 128, false}, kMx{32, 1, true};

/// Rows of a block of this task's row copies.
[[nodiscard]] inline std::int64_t block_height(const ComputeTask& t, const Fp8Blocks& b) {
  return fp8_role(t) == 1 ? b.weight_high : 1;
}

}  // namespace rehearse
