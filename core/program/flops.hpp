#pragma once
// Matrix-product FLOPs that a Program executes, for hardware FLOPs utilisation.

#include "core/base/units.hpp"
#include "core/program/program.hpp"

namespace rehearse {

/// FLOPs of one task on a rank: 2 b m n k for products and convolutions, 4 b a s_q s_k d for attention forward and
/// twice that backward (full square; the scores that a fused backward makes again count as part of the kernel, not as
/// work; a block of ring attention as much as it is of the square), 7 b s a p n for a recurrence and twice that
/// backward (as Megatron-LM counts a scan), 0 for all else.
[[nodiscard]] Flops matmul_flops(const Program& program, const ComputeTask& task, const ExprContext& at);

/// Sum over the tasks of one step on all ranks, recomputation included.
[[nodiscard]] Flops executed_matmul_flops(const Program& program);

}  // namespace rehearse
