// Products whose epilogues do the tasks after them: a bias and GELU, a residual's addition, GELU's gradient, a bias's
// gradient. What cuBLASLt does not offer for a shape is done task by task.

#include "gpu_backend/cuda/ops/fused.hpp"
#include "gpu_backend/cuda/ops/products.hpp"

namespace rehearse::cuda {

namespace {

constexpr std::int64_t kAuxMultiple = 8;  // Elements of a row that an epilogue keeps, in cuBLASLt.

[[nodiscard]] bool one_output(const OperatorCall& linear) { return outputs_of(linear) == 1; }
[[nodiscard]] bool in_16_bits(const OperatorCall& c) {
  return std::all_of(c.operands.begin(), c.operands.end(),
                     [](const TensorView& x) { return x.type == ElementType::real16; });
}
[[nodiscard]] bool plain_add(const OperatorCall& c) {
  return !c.task->accumulates && c.operands.size() == 3 &&
         std::none_of(c.operands.begin(), c.operands.end(), [](const TensorView& x) { return x.held->haloed(); });
}

/// Runs the product where cuBLASLt offers it with its epilogue.
[[nodiscard]] bool ran(const OperatorCall& c, const GemmCall& g) {
  if (g.m == 0 || g.n == 0 || g.k == 0 || !c.launch->gemm->offers(g)) return false;
  c.launch->gemm->run(stream(c), g);
  return true;
}

// ---- product and addition: x, weight, y, [bias]; a, b, sum, one of which is y

[[nodiscard]] std::size_t other_term(FusedCalls calls) { return calls[1].places[0] == calls[0].places[2] ? 1 : 0; }
[[nodiscard]] bool takes_addition(FusedCalls calls) {
  if (!one_output(calls[0].call) || !plain_add(calls[1].call)) return false;
  const auto& y = calls[0].places[2];
  const std::size_t other = other_term(calls);
  return calls[1].places[1 - other] == y && calls[1].places[other] != y && calls[0].unseen[2] &&
         calls[1].call.operand(2).type == calls[0].call.operand(2).type &&
         calls[1].call.operand(other).type == calls[0].call.operand(2).type;
}
void run_addition(FusedCalls calls) {
  GemmCall g = linear_product(calls[0].call, linear_outputs(calls[0].call).front(), 0);
  g.c.data = calls[1].call.operand(2).data;
  g.added = calls[1].call.operand(other_term(calls)).data;
  g.beta = 1;
  if (!ran(calls[0].call, g)) one_by_one(calls);
}

// ---- product and GELU: x, weight, y, [bias]; y, GELU(y)

[[nodiscard]] bool takes_gelu(FusedCalls calls) {
  const OperatorCall& linear = calls[0].call;
  return one_output(linear) && in_16_bits(linear) && in_16_bits(calls[1].call) &&
         calls[1].places[0] == calls[0].places[2] && linear.operand(1).extent(0) % kAuxMultiple == 0;
}
void run_gelu(FusedCalls calls) {
  GemmCall g = linear_product(calls[0].call, linear_outputs(calls[0].call).front(), 0);
  g.epilogue = Epilogue::gelu;
  g.aux = calls[0].unseen[2] ? nullptr : calls[0].call.operand(2).data;
  g.c.data = calls[1].call.operand(1).data;
  if (!aligned(g.aux) || !ran(calls[0].call, g)) one_by_one(calls);
}

// ---- product and GELU's gradient: weight, dy, one output gradient; dy, x, dx

[[nodiscard]] bool takes_gelu_grad(FusedCalls calls) {
  const OperatorCall& product = calls[0].call;
  return product.operands.size() == 3 && in_16_bits(product) && in_16_bits(calls[1].call) && calls[0].unseen[1] &&
         calls[1].places[0] == calls[0].places[1] && product.operand(0).extent(1) % kAuxMultiple == 0;
}
void run_gelu_grad(FusedCalls calls) {
  GemmCall g = input_grad_product(calls[0].call, input_grad_terms(calls[0].call).front(), 0);
  g.epilogue = Epilogue::gelu_grad;
  g.aux = calls[1].call.operand(1).data;
  g.c.data = calls[1].call.operand(2).data;
  if (!aligned(g.aux) || !ran(calls[0].call, g)) one_by_one(calls);
}

// ---- gradients of weight and bias: x, dweight, output gradients...; output gradients..., dbias

[[nodiscard]] bool takes_bias_grad(FusedCalls calls) {
  const OperatorCall &weight = calls[0].call, &bias = calls[1].call;
  const std::size_t outputs = weight.operands.size() - 2;
  if (bias.operands.size() != outputs + 1 || bias.operands.back().type != weight.operand(1).type) return false;
  for (std::size_t i = 0; i < outputs; ++i)
    if (calls[1].places[i] != calls[0].places[2 + i]) return false;
  return weight.operand(0).type != ElementType::real64 &&
         weight.operand(1).extent(0) == bias.operands.back().elements();
}
void run_bias_grad(FusedCalls calls) {
  const OperatorCall &weight = calls[0].call, &bias = calls[1].call;
  const TensorView& sum = bias.operands.back();
  std::vector<GemmCall> products;
  std::int64_t row = 0;
  bool offered = true;
  for (const Together& outputs : weight_grad_terms(weight)) {
    GemmCall& g = products.emplace_back(weight_grad_product(weight, outputs, row));
    g.epilogue = Epilogue::row_sums;
    g.row_sums = const_cast<std::byte*>(element_at(sum, row));
    if (!bias.onto_zeros || !aligned(g.row_sums))
      g.row_sums = weight.launch->scratch(static_cast<std::size_t>(g.m) * size_of(sum.type));
    offered = offered && g.m > 0 && g.n > 0 && g.k > 0 && weight.launch->gemm->offers(g);
    row += g.m;
  }
  if (!offered) return one_by_one(calls);
  row = 0;
  for (const GemmCall& g : products) {
    weight.launch->gemm->run(stream(weight), g);
    std::byte* to = const_cast<std::byte*>(element_at(sum, row));
    if (g.row_sums != to) add(stream(weight), {to, sum.type}, {g.row_sums, sum.type}, {to, sum.type}, g.m);
    row += g.m;
  }
}

constexpr std::string_view kWeightGrad = "matmul.linear_weight_grad", kBiasGrad = "add.column_sum";

}  // namespace

bool ran_weight_and_bias_grads(FusedCalls calls) {
  if (calls.size() != 2 || operator_name(*calls[0].call.task) != kWeightGrad ||
      operator_name(*calls[1].call.task) != kBiasGrad || !takes_bias_grad(calls))
    return false;
  run_bias_grad(calls);
  return true;
}

const std::vector<Fusion>& fused_products() {
  static const std::vector<Fusion> kAll{
      {"product and GELU", {"matmul.linear", "activation.gelu_tanh"}, takes_gelu, run_gelu},
      {"product and addition", {"matmul.linear", "add"}, takes_addition, run_addition},
      {"product and GELU's gradient",
       {"matmul.linear_input_grad", "activation_grad.gelu_tanh"},
       takes_gelu_grad,
       run_gelu_grad},
      {"gradients of weight and bias", {kWeightGrad, kBiasGrad}, takes_bias_grad, run_bias_grad}};
  return kAll;
}

}  // namespace rehearse::cuda
