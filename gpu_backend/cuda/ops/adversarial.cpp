// What two networks trained against each other use. Operands as in cpu/ops/adversarial.cpp.

#include "gpu_backend/cuda/ops/image_operands.hpp"

namespace rehearse::cuda {

namespace {

/// x, y
void run_tanh(const OperatorCall& c) { tanh_of(stream(c), elements(c.operand(0)), elements(c.operand(1))); }
/// dy, x, dx
void run_tanh_grad(const OperatorCall& c) {
  tanh_grad(stream(c), elements(c.operand(0)), elements(c.operand(1)), elements(c.operand(2)));
}

/// scalars: sign; form
ScoreForm form_of(const OperatorCall& c) { return {c.task->scalars.at(0), static_cast<int>(c.task->scalars.at(1))}; }
/// scores, loss
void run_loss_adversarial(const OperatorCall& c) {
  const std::int64_t n = c.operand(0).elements();
  double* total = c.launch->observe([observed = c.observed, counts = c.first_replica, n](double sum) {
    if (!counts) return;
    observed->loss_sum += sum;
    observed->tokens += n;
  });
  score_loss(stream(c), reals(c.operand(0)), n, form_of(c), reals(c.operand(1)), total);
}
/// scores, gradient; dims: scores that the loss is a mean over
void run_loss_grad(const OperatorCall& c) {
  score_loss_grad(stream(c), reals(c.operand(0)), reals(c.operand(1)), c.operand(0).elements(), form_of(c),
                  static_cast<double>(c.dims.at(0)));
}

[[maybe_unused]] const bool registered_adversarial =
    cuda_operators().add({"activation.tanh", "hyperbolic tangent", {}, any(run_tanh)}) &&
    cuda_operators().add({"activation_grad.tanh", "its gradient", {}, any(run_tanh_grad)}) &&
    cuda_operators().add({"cross_entropy.adversarial", "mean loss of scores", {}, any(run_loss_adversarial)}) &&
    cuda_operators().add({"cross_entropy_grad.adversarial", "gradient of scores", {}, any(run_loss_grad)});

}  // namespace

}  // namespace rehearse::cuda
