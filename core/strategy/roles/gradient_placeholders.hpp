#pragma once
// What autograd is handed in place of weight gradients that products add to a buffer themselves.

#include "core/config/settings/kernels.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/program/program.hpp"

namespace rehearse {

/// Adds them to every role of a Program that is lowered otherwise: under framework.gradient_placeholders one tensor in
/// the weights' type for each shape of weight matrix in layers, held for good (Transformer Engine,
/// transformer_engine/pytorch/module/base.py, get_dummy_wgrad). Without fused gradient accumulation into fp32, and
/// where FSDP owns the gradients, there are none.
void add_gradient_placeholders(Program& program, const KernelSettings& kernels, const TrainingSettings& training,
                               const StrategySettings& strategy);

}  // namespace rehearse
