// Cross-entropy piece by piece, gradient norm, clipping and updates. Operands as in cpu/ops/cross_entropy.cpp and
// optimizer.cpp.

#include <algorithm>
#include <vector>

#include "gpu_backend/cuda/ops/logits.hpp"
#include "gpu_backend/cuda/ops/updates.hpp"

namespace rehearse::cuda {

namespace {

void run_max(const OperatorCall& c) {
  xent_max(stream(c), reals(c.operand(0)), reals(c.operand(1)), logits_of(c.operand(0)));
}
void run_sums_loss(const OperatorCall& c) {
  xent_sums(stream(c), reals(c.operand(0)), integers(c.operand(1)), reals(c.operand(2)), reals(c.operand(3)),
            logits_of(c.operand(0)));
}
void run_exponential(const OperatorCall& c) {
  xent_exponential(stream(c), reals(c.operand(0)), integers(c.operand(1)), reals(c.operand(2)), reals(c.operand(3)),
                   logits_of(c.operand(0)));
}
void run_sum_exp(const OperatorCall& c) {
  xent_sum_exp(stream(c), reals(c.operand(0)), reals(c.operand(1)), logits_of(c.operand(0)));
}
void run_normalise_loss(const OperatorCall& c) {
  xent_normalise(stream(c), reals(c.operand(0)), reals(c.operand(1)), logits_of(c.operand(0)));
}

/// sum, target, loss
void run_loss_loss(const OperatorCall& c) {
  const std::int64_t rows = c.operand(0).elements();
  xent_loss(stream(c), reals(c.operand(0)), c.operand(1).data, reals(c.operands.back()), observed_loss(c, rows), rows);
}
/// sums [b, s, 2], loss
void run_loss_of_sums(const OperatorCall& c) {
  const std::int64_t rows = c.operand(0).elements() / 2;
  xent_loss(stream(c), reals(c.operand(0)), nullptr, reals(c.operands.back()), observed_loss(c, rows), rows);
}

void run_grad(const OperatorCall& c) {
  xent_grad(stream(c), reals(c.operand(0)), integers(c.operand(1)), reals(c.operand(2)), nullptr, nullptr,
            logits_of(c.operand(0)), static_cast<double>(c.dims.at(0)));
}
void run_grad_in_place(const OperatorCall& c) {
  xent_grad(stream(c), reals(c.operand(1)), integers(c.operand(0)), reals(c.operand(1)), nullptr, nullptr,
            logits_of(c.operand(1)), static_cast<double>(c.dims.at(0)));
}
void run_grad_fused(const OperatorCall& c) {
  xent_grad(stream(c), reals(c.operand(0)), integers(c.operand(1)), reals(c.operand(2)), c.operand(3).data,
            c.operand(4).data, logits_of(c.operand(0)), static_cast<double>(c.dims.at(0)));
}

/// gradients..., sum of squares; offsets: per gradient, whether this rank counts it
void run_square_sum(const OperatorCall& c) {
  std::vector<Counted> counted;
  for (std::size_t i = 0; i + 1 < c.operands.size(); ++i)
    if (c.offsets.at(i) != 0) counted.push_back({reals(c.operand(i)), c.operand(i).elements()});
  const int n = static_cast<int>(counted.size());
  square_sum(stream(c), counted.data(), n, reals(c.operands.back()),
             c.launch->scratch(square_scratch_bytes(counted.data(), n)));
}
/// gradients (scaled), sum of squares; scalars: largest norm
void run_clip(const OperatorCall& c) {
  std::vector<Counted> scaled;
  for (std::size_t i = 0; i + 1 < c.operands.size(); ++i)
    scaled.push_back({reals(c.operand(i)), c.operand(i).elements()});
  clip(stream(c), scaled.data(), static_cast<int>(scaled.size()), reals(c.operands.back()), c.task->scalars.at(0),
       observed_norm(c));
}

void run_adam(const OperatorCall& c) {
  const AdamRule rule = adam_rule(c);
  by_types(c, 2, [&](const std::vector<Updated>& tensors, const UpdateTypes& types) {
    adam(stream(c), tensors.data(), static_cast<int>(tensors.size()), types, rule);
  });
}
void run_sgd(const OperatorCall& c) {
  const SgdRule rule{c.task->scalars.at(0), c.task->scalars.at(2)};
  by_types(c, 1, [&](const std::vector<Updated>& tensors, const UpdateTypes& types) {
    sgd(stream(c), tensors.data(), static_cast<int>(tensors.size()), types, rule);
  });
}

[[maybe_unused]] const bool registered_loss =
    cuda_operators().add({"cross_entropy.max", "largest logit of a token", {}, any(run_max)}) &&
    cuda_operators().add(
        {"cross_entropy.sums", "sum of exponentials, and the label's logit", {}, any(run_sums_loss)}) &&
    cuda_operators().add(
        {"cross_entropy.exponential", "exponentials in place, and the label's logit", {}, any(run_exponential)}) &&
    cuda_operators().add({"cross_entropy.sum_exp", "sum of exponentials", {}, any(run_sum_exp)}) &&
    cuda_operators().add({"cross_entropy.normalise", "probabilities in place", {}, any(run_normalise_loss)}) &&
    cuda_operators().add({"cross_entropy.loss", "mean loss", {}, any(run_loss_loss)}) &&
    cuda_operators().add({"cross_entropy.loss_of_sums", "mean loss", {}, any(run_loss_of_sums)}) &&
    cuda_operators().add({"cross_entropy_grad", "gradient from probabilities", {}, any(run_grad)}) &&
    cuda_operators().add(
        {"cross_entropy_grad.in_place", "gradient in place of probabilities", {}, any(run_grad_in_place)}) &&
    cuda_operators().add({"cross_entropy_grad.fused", "gradient from logits", {}, any(run_grad_fused)}) &&
    cuda_operators().add({"square_sum.l2", "sum of squares of what this rank counts", {}, any(run_square_sum)}) &&
    cuda_operators().add({"scale.clip", "gradients by the norm", {}, any(run_clip)}) &&
    cuda_operators().add({"optimizer.sgd", "SGD with momentum", {}, any(run_sgd)}) &&
    cuda_operators().add({"optimizer.adam", "Adam", {}, any(run_adam)}) &&
    cuda_operators().add({"optimizer.adamw", "AdamW", {}, any(run_adam)});

}  // namespace

}  // namespace rehearse::cuda
