// A product whose queries and keys are turned where it leaves them, and the same backward: gradients of what was turned
// are turned back in place, and the product's gradients read them there. Queries and keys before the turn are never
// stored; where they lie beside values, all three are one product.

#include <optional>

#include "gpu_backend/cuda/ops/fused.hpp"
#include "gpu_backend/cuda/ops/operands.hpp"

namespace rehearse::cuda {

namespace {

/// A task that turns: what it reads and what it writes.
constexpr std::size_t kTurned = 0, kResult = 1;

[[nodiscard]] bool turns(const FusedCall& one) {
  return one.call.task->op == ComputeOp::rope || one.call.task->op == ComputeOp::rope_grad;
}

/// The operand of a task at a place; nothing where there is none.
[[nodiscard]] std::optional<std::size_t> operand_at(const FusedCall& one, const FusedCall::Place& place) {
  const auto at = std::find(one.places.begin(), one.places.end(), place);
  return at == one.places.end() ? std::nullopt : std::optional(static_cast<std::size_t>(at - one.places.begin()));
}
[[nodiscard]] bool same_type(const FusedCall& turn) {
  return turn.call.operand(kTurned).type == turn.call.operand(kResult).type;
}

/// A call of a task, with `from` of every turn in the place of its `to`.
[[nodiscard]] OperatorCall with_turned(const FusedCall& one, FusedCalls calls, std::size_t from, std::size_t to) {
  OperatorCall out = one.call;
  for (const FusedCall& turn : calls) {
    if (!turns(turn)) continue;
    const auto at = operand_at(one, turn.places[to]);
    if (!at) continue;
    const TensorView& instead = turn.call.operand(from);
    out.operands[*at].data = instead.data, out.operands[*at].apart = instead.apart;
  }
  return out;
}
void run_task(const OperatorCall& call) { cuda_operators().at(operator_name(*call.task)).value.run32(call); }
/// Turns what lies at one operand of the task where it lies.
void run_in_place(const FusedCall& turn, std::size_t where) {
  OperatorCall call = turn.call;
  for (const std::size_t i : {kTurned, kResult})
    call.operands[i].data = turn.call.operand(where).data, call.operands[i].apart = turn.call.operand(where).apart;
  run_task(call);
}

// ---- product; turn, turn: x, weight, outputs..., [bias]; output, turned

[[nodiscard]] bool takes_turned(FusedCalls calls) {
  for (const FusedCall& turn : calls.subspan(1)) {
    const auto output = operand_at(calls[0], turn.places[kTurned]);
    if (!output || *output < 2 || !turn.unseen[kTurned] || !same_type(turn)) return false;
  }
  return calls[1].places[kTurned] != calls[2].places[kTurned];
}
void run_turned(FusedCalls calls) {
  run_task(with_turned(calls[0], calls, kResult, kTurned));
  for (const FusedCall& turn : calls.subspan(1)) run_in_place(turn, kResult);
}
[[nodiscard]] std::vector<FusedOperand> beside_turned(FusedCalls calls) {
  std::vector<FusedOperand> out;
  const std::size_t end = calls[0].call.operands.size() - (calls[0].call.offsets.empty() ? 0 : 1);
  for (std::size_t i = 2; i < end; ++i) {
    FusedOperand one{0, i};
    for (std::size_t t = 1; t < calls.size(); ++t)
      if (calls[t].places[kTurned] == calls[0].places[i]) one = {t, kResult};
    out.push_back(one);
  }
  return out;
}

// ---- turn back, turn back; gradients of the product: turned gradient, output gradient; as in cpu/ops/linear.cpp

[[nodiscard]] bool takes_turned_back(FusedCalls calls) {
  for (const FusedCall& turn : calls.first(2))
    if (!turn.spent[kTurned] || turn.unseen[kTurned] || !turn.unseen[kResult] || !same_type(turn)) return false;
  return std::all_of(calls.begin() + 2, calls.end(), [&](const FusedCall& of) {
    return operand_at(of, calls[0].places[kResult]) && operand_at(of, calls[1].places[kResult]);
  });
}
void run_turned_back(FusedCalls calls) {
  for (const FusedCall& turn : calls.first(2)) run_in_place(turn, kTurned);
  std::vector<FusedCall> rest(calls.begin() + 2, calls.end());
  for (FusedCall& of : rest) of.call = with_turned(of, calls, kTurned, kResult);
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const FusedCalls weight_and_bias = FusedCalls(rest).subspan(i, std::min<std::size_t>(2, rest.size() - i));
    if (ran_weight_and_bias_grads(weight_and_bias))
      ++i;
    else
      run_task(rest[i].call);
  }
}
[[nodiscard]] std::vector<FusedOperand> beside_turned_back(FusedCalls calls) {
  std::vector<FusedOperand> out;
  for (std::size_t i = 2; i < calls[2].call.operands.size(); ++i) {
    FusedOperand one{2, i};
    for (std::size_t t = 0; t < 2; ++t)
      if (calls[t].places[kResult] == calls[2].places[i]) one = {t, kTurned};
    out.push_back(one);
  }
  return out;
}

}  // namespace

const std::vector<Fusion>& fused_rotations() {
  constexpr std::string_view kProduct = "matmul.linear", kInput = "matmul.linear_input_grad",
                             kWeight = "matmul.linear_weight_grad", kBias = "add.column_sum", kBack = "rope_grad";
  static const std::vector<Fusion> kAll = [&] {
    std::vector<Fusion> out{
        {"product and rotations", {kProduct, "rope", "rope"}, takes_turned, run_turned, beside_turned}};
    for (const std::vector<std::string_view>& gradients :
         {std::vector{kWeight, kBias, kInput}, std::vector{kInput, kWeight, kBias}, std::vector{kWeight, kInput},
          std::vector{kInput, kWeight}}) {
      Fusion one{"rotations back and gradients of the product",
                 {kBack, kBack},
                 takes_turned_back,
                 run_turned_back,
                 beside_turned_back};
      one.operators.insert(one.operators.end(), gradients.begin(), gradients.end());
      out.push_back(std::move(one));
    }
    return out;
  }();
  return kAll;
}

}  // namespace rehearse::cuda
