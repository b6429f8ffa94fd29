#pragma once
// A backward body in two halves (Qi et al. 2023): the gradient of the block's input, which the stage before waits for,
// and those of its parameters, for which only the update waits.

#include <set>

#include "core/strategy/bodies/body_builder.hpp"

namespace rehearse {

/// Body -1 where a half has nothing to do.
struct SplitBackward {
  BodyBuilder::Finished input{-1, -1}, weight{-1, -1};
};

/// Divides the body `whole`, which no entry may call afterwards. The weight half gets the tasks of phase weight_grad
/// and what only they read, gathers among it; a task stays in the input half if that reads what it writes, or
/// overwrites what it reads. Storage that both halves use lives from one to the other: what was scratch is then saved
/// per layer and microbatch, so that memory shows what is deferred. Tensors of `kept` are given back by the weight half
/// even where it does not read them, because a block whose weight half comes first does. With `gradients`, only tasks
/// that add to one of these tensors are weight gradients.
[[nodiscard]] SplitBackward split_backward(ProgramFrame& frame, const BodyBuilder::Finished& whole,
                                           const std::set<int>& kept, const std::set<int>& gradients = {});

}  // namespace rehearse
