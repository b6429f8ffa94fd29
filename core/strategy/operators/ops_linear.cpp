// Linear: one GEMM forward; input gradient and weight gradient backward. Column parallel (weight split by output
// features) reads whole tokens and writes its slice of features; row parallel reads its slice and writes a partial sum
// (Shoeybi et al. 2019).

#include "core/strategy/operators/ops_linear.hpp"

#include "core/config/setting_key.hpp"
#include "core/strategy/operators/fp8.hpp"
#include "core/strategy/operators/linear_loss.hpp"

namespace rehearse::ops {

namespace {

void forward_linear(BlockBody& b, const OpSpec& op) {
  if (logits_in_chunks(op, b.options().kernels)) return;  // The loss runs both.
  if (gathers_in_pieces(b, op)) return piecewise_gather_forward(b, op);
  if (scatters_in_pieces(b, op)) return piecewise_scatter_forward(b, op);
  const bool fp8 = in_fp8(b, op);
  const int x = fp8 ? fp8_input(b, op, linear_input(b, op))
                    : b.input_of_product(op.name, op.inputs[0], linear_input(b, op), op.name);
  const int w = fp8 ? fp8_weight(b, op).rows : b.param(op.params[0]);
  std::vector<int> results;
  for (const int t : op.outputs) results.push_back(b.result(t, linear_output(b, op, t)));
  forward_product(b, op, x, w, results);
  for (std::size_t i = 0; i < results.size(); ++i) b.keep(op.outputs[i], results[i], op.name);
}

const SettingKey<bool> kBiasGradients = declare_key(
    "framework.bias_gradients_in_products", false, "Products of weight gradients sum the gradients of biases, too.",
    {.detail = "cuBLASLt's epilogue BGRADB, as in Apex's FusedDense. false: a kernel of its own reads the output's "
               "gradient once more."});

/// Column sums of the output gradient, as it is stored: a rank sums over its own tokens. Most frameworks run them as
/// kernels of their own.
void bias_gradient(BlockBody& b, const OpSpec& op) {
  if (op.params.size() < 2) return;
  std::vector<Operand> operands;
  for (const int t : op.outputs) operands.push_back(read(b.grad(t, gradient_layout(b.stored(t)), op.name)));
  operands.push_back(update(b.grad_accumulator(op.params[1])));
  ComputeTask sum;
  sum.op = ComputeOp::add;
  sum.variant = "column_sum";
  sum.accumulates = true;
  if (kBiasGradients(b.options().kernels)) sum.passes = sum.kernels = 0;
  b.builder().compute(op.name + ".bias_grad", sum, operands, Phase::weight_grad);
}

/// What the products of backward read.
struct Backward {
  int x = -1, w = -1;
  std::vector<int> dy, dy_columns;
};

bool find_operands(BlockBody& b, const OpSpec& op, Backward& out) {
  if (in_fp8(b, op)) {
    for (const OperandCopies& g : fp8_output_grads(b, op, linear_output)) {
      out.dy.push_back(g.rows);
      out.dy_columns.push_back(g.columns);
    }
    if (out.dy.empty()) return false;
    out.w = fp8_weight(b, op).columns;
    if (!op.frozen) out.x = fp8_input_again(b, op, linear_input(b, op));
    return true;
  }
  for (const int t : op.outputs) {
    const int g = b.grad(t, gradient_layout(linear_output(b, op, t)), op.name);
    if (g < 0) return false;
    out.dy.push_back(g);
  }
  out.dy_columns = out.dy;
  out.w = b.param(op.params[0]);
  // Asked for before the input gradient is computed, so that a gather runs beside it.
  if (!op.frozen) out.x = b.input_of_product(op.name, op.inputs[0], linear_input(b, op), op.name + ".again");
  return true;
}

void weight_gradient(BlockBody& b, const OpSpec& op, int x, const std::vector<int>& dy) {
  ComputeTask t = weight_product(b, op, dy[0]);
  const Operand to = gradient_operand(b, op, t);
  std::vector<Operand> operands{read(x), to};
  for (const int f : dy) operands.push_back(read(f));
  b.builder().compute(op.name + ".weight_grad", t, operands, Phase::weight_grad);
  add_piece(b, op, to);
  bias_gradient(b, op);
}

void input_gradient(BlockBody& b, const OpSpec& op, const Backward& of) {
  if (!b.wants_grad(op.inputs[0])) return;
  const Layout in = linear_input(b, op);
  const bool column = is_shard(b.param_layout(op.params[0]), Axis::tp, 0);
  const int dx = b.scratch_of(op.inputs[0], op.name + ".input_grad", column ? with_axis(in, Axis::tp, Partial{}) : in);
  input_product(b, op, of.w, of.dy, dx);
  b.add_grad(op.inputs[0], dx, op.name);
}

void backward_linear(BlockBody& b, const OpSpec& op) {
  if (scatters_in_pieces(b, op) && !(in_fp8(b, op) && casts_gathered(b.builder().frame()))) {
    const int whole = piecewise_input_grad(b, op);
    if (whole >= 0 && !op.frozen)
      weight_gradient(b, op,
                      in_fp8(b, op)
                          ? fp8_input_again(b, op, linear_input(b, op))
                          : b.input_of_product(op.name, op.inputs[0], linear_input(b, op), op.name + ".again"),
                      {whole});
    return;
  }
  Backward of;
  if (!find_operands(b, op, of)) return;
  // What follows the input gradient hides its reduction.
  if (b.options().overlap_tp_backward) input_gradient(b, op, of);
  if (b.wants_weight_grads() && !op.frozen) weight_gradient(b, op, of.x, of.dy_columns);
  if (!b.options().overlap_tp_backward) input_gradient(b, op, of);
}

std::vector<int> saved_by_linear(const OpSpec& op, const BlockOptions& options, const ProgramFrame&) {
  return op.frozen || logits_in_chunks(op, options.kernels) ? std::vector<int>{} : std::vector<int>{op.inputs[0]};
}

}  // namespace

Layout linear_input(BlockBody& b, const OpSpec& op) {
  // All pixels of an image go into one product: tiles are gathered.
  const Layout stored =
      with_axis(with_axis(b.stored(op.inputs[0]), Axis::tile_h, Replicate{}), Axis::tile_w, Replicate{});
  const Layout& weight = b.param_layout(op.params[0]);
  return is_shard(weight, Axis::tp, 0) ? with_axis(stored, Axis::tp, Replicate{}) : stored;
}

Layout linear_output(BlockBody& b, const OpSpec& op, int t) {
  const Layout& weight = b.param_layout(op.params[0]);
  return is_shard(weight, Axis::tp, 1) ? with_axis(b.stored(t), Axis::tp, Partial{}) : b.stored(t);
}

void forward_product(BlockBody& b, const OpSpec& op, int x, int w, const std::vector<int>& results) {
  std::vector<Operand> operands{read(x), read(w)};
  for (const int f : results) operands.push_back(write(f));
  ComputeTask t =
      linear_product(b, op, "linear", b.tokens(results.front()), b.builder().dim(w, 0), b.builder().dim(w, 1));
  t.transpose_b = true;
  add_bias(b, op, t, operands);
  b.builder().compute(op.name, t, operands, b.phase());
}

void input_product(BlockBody& b, const OpSpec& op, int w, const std::vector<int>& dy, int dx) {
  const ExprId n = b.builder().dim(w, 0), k = b.builder().dim(w, 1), m = b.tokens(dy[0]);
  std::vector<Operand> operands{read(w), write(dx)};
  for (const int f : dy) operands.push_back(read(f));
  b.builder().compute(op.name + ".input_grad", linear_product(b, op, "linear_input_grad", m, k, n), operands,
                      Phase::input_grad);
}

ComputeTask weight_product(BlockBody& b, const OpSpec& op, int dy) {
  const int w = b.param(op.params[0]);
  ComputeTask t =
      linear_product(b, op, "linear_weight_grad", b.builder().dim(w, 0), b.builder().dim(w, 1), b.tokens(dy));
  t.transpose_a = true;
  return t;
}

ComputeTask linear_product(BlockBody& b, const char* variant, ExprId m, ExprId n, ExprId k) {
  ComputeTask t;
  t.op = ComputeOp::matmul;
  t.variant = variant;
  t.dims = {ExprPool::kOne, m, n, k};
  t.arithmetic = b.builder().frame().arithmetic_dtype;
  return t;
}

ComputeTask linear_product(BlockBody& b, const OpSpec& op, const char* variant, ExprId m, ExprId n, ExprId k) {
  ComputeTask t = linear_product(b, variant, m, n, k);
  if (in_fp8(b, op)) t.arithmetic = b.builder().frame().narrow_arithmetic;
  return t;
}

void add_bias(BlockBody& b, const OpSpec& op, ComputeTask& task, std::vector<Operand>& operands) {
  if (op.params.size() < 2) return;
  operands.push_back(read(b.param(op.params[1])));
  // The terms of a partial sum share one bias: the group's first rank adds it.
  ExprPool& e = b.builder().frame().program.exprs;
  const bool partial = is_shard(b.param_layout(op.params[0]), Axis::tp, 1);
  task.offsets = {partial ? e.apply(ExprOp::eq, e.coord(Axis::tp), ExprPool::kZero) : ExprPool::kOne};
}

[[maybe_unused]] const bool registered_ops_linear =
    lower_operators({"linear"}, {forward_linear, backward_linear, saved_by_linear});

}  // namespace rehearse::ops
