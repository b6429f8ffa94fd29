// Experts' products: one grouped product for all experts of a rank. Split by etp they are column and row parallel as a
// dense MLP's are, and rows are gathered and scattered over etp as tokens are under sequence parallelism.

#include "core/base/index.hpp"
#include "core/strategy/operators/fp8.hpp"
#include "core/strategy/operators/ops.hpp"

namespace rehearse::ops {

namespace {

constexpr int kOut = 1, kIn = 2;  // Dimensions of the weight [experts, out, in].

/// Layout in which the product reads its rows.
Layout input_layout(BlockBody& b, const OpSpec& op) {
  const Layout& stored = b.stored(op.inputs[0]);
  return is_shard(b.param_layout(op.params[0]), Axis::etp, kOut) ? with_axis(stored, Axis::etp, Replicate{}) : stored;
}

/// Layout in which it writes them.
Layout output_layout(BlockBody& b, const OpSpec& op, int t) {
  return is_shard(b.param_layout(op.params[0]), Axis::etp, kIn) ? with_axis(b.stored(t), Axis::etp, Partial{})
                                                                : b.stored(t);
}

/// A product per expert.
ComputeTask grouped_product(BlockBody& b, const OpSpec& op, const char* variant, std::vector<ExprId> dims) {
  ComputeTask t = pass(ComputeOp::grouped_matmul, variant);
  t.dims = std::move(dims);
  t.scalars = {static_cast<double>(b.options().experts.etp)};
  t.arithmetic = in_fp8(b, op) ? b.builder().frame().narrow_arithmetic : b.builder().frame().arithmetic_dtype;
  return t;
}

/// Adds a task on experts' rows, told how many each has.
void add_on_rows(BlockBody& b, const std::string& name, ComputeTask t, std::vector<Operand> operands, Phase phase) {
  const ExpertPlan& plan = b.options().experts;
  if (!plan.padded) {
    t.group_sizes = b.shared("rows_all", plan.counts_all);
    operands.push_back(read(t.group_sizes));
  }
  if (plan.counted) operands.push_back(read(b.shared("rows_here", plan.rows_here)));
  b.builder().compute(name, std::move(t), std::move(operands), phase);
}

// ---- biases of experts, a row by its expert's

/// Bytes that Megatron-LM's addition of the last product's bias moves, over those of one kernel, all in 16 bits: the
/// bias times row weights is written, added to an expert's rows, all experts' rows are joined, 12 bytes for 4; backward
/// two products and their sums, and gradients of the experts' rows joined, 16 for 2
/// (megatron/core/transformer/moe/experts.py, TEGroupedMLP._apply_bias). Dispatchers that send one copy bring row
/// weights in fp32, and what meets them is in fp32 until rows are joined: 28 bytes for 4, 40 for 2.
struct EagerBias {
  double forward, backward;
};
EagerBias eager_bias(const ExpertPlan& plan) { return plan.node > 0 ? EagerBias{7, 20} : EagerBias{3, 8}; }

/// Rows, the bias or its gradient, and what tells them apart.
void add_bias_task(BlockBody& b, const OpSpec& op, const char* what, ComputeTask t, std::vector<Operand> operands,
                   Phase phase) {
  t.scalars = {static_cast<double>(b.options().experts.etp)};
  add_on_rows(b, op.name + what, std::move(t), std::move(operands), phase);
}

bool weighs_bias(const OpSpec& op) { return op.inputs.size() > 1; }

/// A bias that no row weight multiplies is added by the product; the other is a kernel's work, unless kernels are
/// fused.
void add_bias_experts(BlockBody& b, const OpSpec& op, const std::vector<int>& results) {
  if (op.params.size() < 2) return;
  const bool weighted = weighs_bias(op);
  ComputeTask t = pass(ComputeOp::add, weighted ? "weighted_expert_bias" : "expert_bias");
  t.passes = weighted && !b.options().kernels.fused_experts ? eager_bias(b.options().experts).forward : 0;
  std::vector<Operand> operands{read(b.param(op.params[1]))};
  if (weighted) operands.push_back(read(b.value(op.inputs[1])));
  for (const int y : results) operands.push_back(update(y));
  add_bias_task(b, op, ".bias", std::move(t), std::move(operands), b.phase());
}

/// Sums of an expert's rows, and of a weighted bias the row weights' gradients.
void bias_gradient(BlockBody& b, const OpSpec& op, const std::vector<int>& dy) {
  if (op.params.size() < 2) return;
  const bool weighted = weighs_bias(op);
  ComputeTask t = pass(ComputeOp::add, weighted ? "weighted_expert_bias_grad" : "expert_bias_grad");
  t.accumulates = true;
  if (b.options().kernels.fused_experts)
    t.passes = 0;
  else if (weighted)
    t.passes = eager_bias(b.options().experts).backward;
  std::vector<Operand> operands{update(b.grad_accumulator(op.params[1]))};
  int dweights = -1;
  if (weighted) {
    const int weights = b.value(op.inputs[1]);
    dweights = b.scratch_like(op.name + ".bias.weights_grad", weights, b.builder().tensor(weights).layout);
    operands.insert(operands.end(), {read(b.param(op.params[1])), read(weights), write(dweights)});
  }
  for (const int g : dy) operands.push_back(read(g));
  add_bias_task(b, op, ".bias_grad", std::move(t), std::move(operands),
                weighted ? Phase::input_grad : Phase::weight_grad);
  if (weighted) b.add_grad(op.inputs[1], dweights, op.name);
}

void linear_forward(BlockBody& b, const OpSpec& op) {
  BodyBuilder& body = b.builder();
  const bool fp8 = in_fp8(b, op);
  const int x = fp8 ? fp8_input(b, op, input_layout(b, op)) : b.value(op.inputs[0], input_layout(b, op), op.name);
  const int w = fp8 ? fp8_weight(b, op).rows : b.param(op.params[0]);
  std::vector<Operand> operands{read(x), read(w)};
  std::vector<int> results;
  for (const int t : op.outputs) {
    results.push_back(b.result(t, output_layout(b, op, t)));
    operands.push_back(write(results.back()));
  }
  ComputeTask product =
      grouped_product(b, op, "linear", {body.dim(w, 0), body.dim(x, 0), body.dim(w, kOut), body.dim(w, kIn)});
  product.transpose_b = true;
  add_on_rows(b, op.name, std::move(product), std::move(operands), b.phase());
  add_bias_experts(b, op, results);
  for (std::size_t i = 0; i < results.size(); ++i) b.keep(op.outputs[i], results[i], op.name);
}

void linear_backward(BlockBody& b, const OpSpec& op) {
  BodyBuilder& body = b.builder();
  const Layout in = input_layout(b, op);
  std::vector<Operand> dy, dy_columns;
  int x = -1, w = -1;
  if (in_fp8(b, op)) {
    for (const OperandCopies& g : fp8_output_grads(b, op, output_layout)) {
      dy.push_back(read(g.rows));
      dy_columns.push_back(read(g.columns));
    }
    if (dy.empty()) return;
    w = fp8_weight(b, op).columns;
    x = fp8_input_again(b, op, in);
  } else {
    for (const int t : op.outputs) {
      const int g = b.grad(t, gradient_layout(output_layout(b, op, t)), op.name);
      if (g < 0) return;
      dy.push_back(read(g));
    }
    dy_columns = dy;
    w = b.param(op.params[0]);
    x = b.value(op.inputs[0], in, op.name + ".again");
  }
  const ExprId groups = body.dim(w, 0), rows = body.dim(x, 0), out = body.dim(w, kOut), from = body.dim(w, kIn);
  const bool column = is_shard(b.param_layout(op.params[0]), Axis::etp, kOut);
  const int dx = b.scratch_of(op.inputs[0], op.name + ".input_grad", column ? with_axis(in, Axis::etp, Partial{}) : in);
  std::vector<Operand> operands{read(w), write(dx)};
  operands.insert(operands.end(), dy.begin(), dy.end());
  add_on_rows(b, op.name + ".input_grad", grouped_product(b, op, "linear_input_grad", {groups, rows, from, out}),
              std::move(operands), Phase::input_grad);
  b.add_grad(op.inputs[0], dx, op.name);
  if (op.frozen) return;
  ComputeTask product = grouped_product(b, op, "linear_weight_grad", {groups, out, from, rows});
  product.transpose_a = true;
  const Operand to = gradient_operand(b, op, product);
  operands = {read(x), to};
  operands.insert(operands.end(), dy_columns.begin(), dy_columns.end());
  add_on_rows(b, op.name + ".weight_grad", std::move(product), std::move(operands), Phase::weight_grad);
  add_piece(b, op, to);
  if (op.params.size() < 2) return;
  std::vector<int> gradients;
  for (const int t : op.outputs) gradients.push_back(b.grad(t, gradient_layout(b.stored(t)), op.name));
  bias_gradient(b, op, gradients);
}

/// The rows' weights, the last input, as a product that splits the inner size reads them: for all rows.
Layout weights_layout(BlockBody& b, const OpSpec& op) {
  const Layout& stored = b.stored(op.inputs.back());
  return is_shard(b.stored(op.outputs[0]), Axis::etp, 1) ? with_axis(stored, Axis::etp, Replicate{}) : stored;
}

/// What fused kernels compute while they write a product, or read one.
ComputeTask inside_products(BlockBody& b, ComputeTask task) {
  if (b.options().kernels.fused_experts) task.passes = 0;
  return task;
}

/// Bytes that Megatron-LM's bounded activation moves, over those of one kernel, all in 16 bits: gate and up are bounded
/// apart and joined again before the kernel, 22 for 6 of each inner element; backward the kernel, then the bounds'
/// gradients and their join, 30 for 10 (megatron/core/fusions/fused_bias_geglu.py, weighted_bias_quick_geglu_impl).
struct EagerBounds {
  double forward = 22.0 / 6, backward = 3;
};
constexpr EagerBounds kEagerBounds;

ComputeTask activation_task(const OpSpec& op, ComputeOp kind) {
  const bool bounded = op.limit > 0;
  ComputeTask t = pass(kind, bounded ? "weighted_clamped_silu_mul" : std::string(name_of(op.kind)));
  if (!bounded) return t;
  t.scalars = {op.limit};
  t.passes = kind == ComputeOp::activation ? kEagerBounds.forward : kEagerBounds.backward;
  return t;
}

void activation_forward(BlockBody& b, const OpSpec& op) {
  std::vector<Operand> operands;
  for (std::size_t i = 0; i + 1 < op.inputs.size(); ++i) operands.push_back(read(b.value(op.inputs[i])));
  operands.push_back(read(b.value(op.inputs.back(), weights_layout(b, op), op.name)));
  operands.push_back(write(b.result(op.outputs[0], b.stored(op.outputs[0]))));
  b.builder().compute(op.name, inside_products(b, activation_task(op, ComputeOp::activation)), std::move(operands),
                      b.phase());
}

void activation_backward(BlockBody& b, const OpSpec& op) {
  const int dy = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dy < 0) return;
  const Layout all = weights_layout(b, op);
  std::vector<Operand> operands{read(dy)};
  std::vector<int> inputs, gradients;
  for (std::size_t i = 0; i + 1 < op.inputs.size(); ++i) inputs.push_back(b.value(op.inputs[i]));
  inputs.push_back(b.value(op.inputs.back(), all, op.name));
  // Every rank sums over its part of the inner size.
  const bool split = is_shard(b.stored(op.outputs[0]), Axis::etp, 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool weights = i + 1 == inputs.size();
    const Layout layout = !weights ? gradient_layout(b.stored(op.inputs[i]))
                          : split  ? with_axis(all, Axis::etp, Partial{})
                                   : all;
    gradients.push_back(
        b.scratch_like(op.name + "." + nth(b.tensors().spec->tensors, op.inputs[i]).name + "_grad", inputs[i], layout));
  }
  for (const int x : inputs) operands.push_back(read(x));
  for (const int g : gradients) operands.push_back(write(g));
  b.builder().compute(op.name + ".input_grad", inside_products(b, activation_task(op, ComputeOp::activation_grad)),
                      std::move(operands), Phase::input_grad);
  for (std::size_t i = 0; i < gradients.size(); ++i) b.add_grad(op.inputs[i], gradients[i], op.name);
}

// ---- one vector appended to every head

bool splits_heads(BlockBody& b, const OpSpec& op) {
  return !std::holds_alternative<Replicate>(layout_on(b.stored(op.outputs[0]), Axis::tp));
}

void append_forward(BlockBody& b, const OpSpec& op) {
  const int heads = b.value(op.inputs[0]),
            vector = b.value(op.inputs[1], with_axis(b.stored(op.inputs[1]), Axis::tp, Replicate{}), op.name);
  const int y = b.result(op.outputs[0], b.stored(op.outputs[0]));
  b.builder().compute(op.name, pass(ComputeOp::copy, "append"), {read(heads), read(vector), write(y)}, b.phase());
}

void append_backward(BlockBody& b, const OpSpec& op) {
  const int dy = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dy < 0) return;
  const int dheads = b.scratch_of(op.inputs[0], op.name + ".heads_grad", gradient_layout(b.stored(op.inputs[0])));
  const Layout whole = with_axis(b.stored(op.inputs[1]), Axis::tp, Replicate{});
  const int dvector = b.scratch_of(op.inputs[1], op.name + ".vector_grad",
                                   splits_heads(b, op) ? with_axis(whole, Axis::tp, Partial{}) : whole);
  b.builder().compute(op.name + ".input_grad", pass(ComputeOp::add, "append_grad"),
                      {read(dy), write(dheads), write(dvector)}, Phase::input_grad);
  b.add_grad(op.inputs[0], dheads, op.name);
  b.add_grad(op.inputs[1], dvector, op.name);
}

}  // namespace

[[maybe_unused]] const bool registered_ops_experts =
    lower_operators({"grouped_linear"}, {linear_forward, linear_backward, saves_inputs}) &&
    lower_operators({"weighted_silu_mul"}, {activation_forward, activation_backward, saves_inputs}) &&
    lower_operators({"weighted_squared_relu"}, {activation_forward, activation_backward, saves_inputs}) &&
    lower_operators({"append"}, {append_forward, append_backward, saves_nothing});

}  // namespace rehearse::ops
