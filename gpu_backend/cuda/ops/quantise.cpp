// Casts to fp8. Operands as in cpu/ops/quantise.cpp. Copies hold what fp8 can express in a wider type: products
// multiply those on the tensor cores of that type.

#include <algorithm>

#include "gpu_backend/cuda/kernels/quantise.hpp"
#include "gpu_backend/cuda/ops/operands.hpp"
#include "gpu_backend/execute/quantised.hpp"

namespace rehearse::cuda {

namespace {

void find_largest(const OperatorCall& c, const TensorView& x, const TensorView& to, std::int64_t at, bool keeps) {
  largest(stream(c), reals(x), x.elements(), reals(to), at, keeps,
          c.launch->scratch(largest_scratch_bytes(x.elements())));
}

/// Scales of the three roles and this step's largest values; then tensors. scalars: format (3), role, whether rows and
/// columns are made
void run_delayed(const OperatorCall& c) {
  const TensorView& state = c.operand(0);
  const auto role = static_cast<std::int64_t>(fp8_role(*c.task));
  for_each_cast(c, 1, [&](std::size_t, const TensorView& from, const TensorView* rows, const TensorView* columns) {
    find_largest(c, from, state, 3 + role, true);
    for (const TensorView* copy : {rows, columns})
      if (copy != nullptr)
        cast_by_scale(stream(c), reals(from), reals(*copy), from.elements(), reals(state), role, fp8_format(*c.task));
  });
}
void run_update_scales(const OperatorCall& c) {
  for (const TensorView& state : c.operands)
    update_scales(stream(c), reals(state), {{kFormatOfRole[0], kFormatOfRole[1], kFormatOfRole[2]}});
}
/// tensors..., their largest values
void run_amax(const OperatorCall& c) {
  for (std::size_t i = 0; i + 1 < c.operands.size(); ++i)
    find_largest(c, c.operand(i), c.operands.back(), static_cast<std::int64_t>(i), false);
}
/// largest values, then tensors
void run_tensorwise(const OperatorCall& c) {
  for_each_cast(c, 1,
                [&](std::size_t number, const TensorView& from, const TensorView* rows, const TensorView* columns) {
                  for (const TensorView* copy : {rows, columns})
                    if (copy != nullptr)
                      cast_by_largest(stream(c), reals(from), reals(*copy), from.elements(), reals(c.operand(0)),
                                      static_cast<std::int64_t>(number), fp8_format(*c.task));
                });
}

template <const Fp8Blocks& kBlocks>
void run_in_blocks(const OperatorCall& c) {
  const std::int64_t across = block_height(*c.task, kBlocks), along = kBlocks.along;
  for_each_cast(c, 0,
                [&](std::size_t number, const TensorView& from, const TensorView* rows, const TensorView* columns) {
                  const std::int64_t wide = std::max<std::int64_t>(1, c.dims.at(number)), high = from.elements() / wide;
                  if (rows != nullptr)
                    cast_blocks(stream(c), reals(from), reals(*rows), {high, wide, across, along, kBlocks.power_of_two},
                                fp8_format(*c.task));
                  if (columns != nullptr)
                    cast_blocks(stream(c), reals(from), reals(*columns),
                                {high, wide, along, across, kBlocks.power_of_two}, fp8_format(*c.task));
                });
}

[[maybe_unused]] const bool registered_quantise =
    cuda_operators().add({"quantise.delayed", "to fp8 by the scale of the step before", {}, any(run_delayed)}) &&
    cuda_operators().add({"quantise.update_scales", "scales of the next step", {}, any(run_update_scales)}) &&
    cuda_operators().add({"quantise.amax", "largest value of each tensor", {}, any(run_amax)}) &&
    cuda_operators().add({"quantise.tensorwise", "to fp8 by one scale", {}, any(run_tensorwise)}) &&
    cuda_operators().add({"quantise.rowwise", "to fp8 by a scale per row", {}, any(run_in_blocks<kRowwise>)}) &&
    cuda_operators().add(
        {"quantise.blockwise", "to fp8 by a scale per 128 or 128 x 128", {}, any(run_in_blocks<kBlockwise>)}) &&
    cuda_operators().add({"quantise.mxfp8", "to fp8 by a power of two per 32", {}, any(run_in_blocks<kMx>)});

}  // namespace

}  // namespace rehearse::cuda
