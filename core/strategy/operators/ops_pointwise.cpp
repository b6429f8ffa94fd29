// Norms, dropout, activations, residual additions, rotary embedding: kernels bound by memory, whose bytes are their
// operands'.

#include <algorithm>

#include "core/base/index.hpp"
#include "core/config/setting_key.hpp"
#include "core/strategy/bodies/recompute.hpp"
#include "core/strategy/operators/ops.hpp"

namespace rehearse::ops {

namespace {

/// The op that reads the single output of `op` and nothing else does, if it is of `kind`.
const OpSpec* sole_reader(const BlockSpec& spec, const OpSpec& op, OpKind kind) {
  const OpSpec* found = nullptr;
  for (const OpSpec& other : spec.ops)
    if (std::find(other.inputs.begin(), other.inputs.end(), op.outputs[0]) != other.inputs.end()) {
      if (found != nullptr) return nullptr;
      found = &other;
    }
  return found != nullptr && found->kind == kind ? found : nullptr;
}

/// The dropout that runs inside an addition that reads it, where kernels are fused: the first such input. Null where
/// there is none.
const OpSpec* fused_dropout(BlockBody& b, const OpSpec& add) {
  if (!b.options().kernels.fused_norm) return nullptr;
  for (const int t : add.inputs) {
    const BlockSpec& spec = *b.tensors().spec;
    const int writer = writer_of(spec, t);
    if (writer < 0) continue;
    const OpSpec& w = nth(spec.ops, writer);
    if (w.kind == OpKind::dropout && sole_reader(spec, w, OpKind::add) == &add) return &w;
  }
  return nullptr;
}

bool fused_into_add(BlockBody& b, const OpSpec& dropout) {
  const OpSpec* add = sole_reader(*b.tensors().spec, dropout, OpKind::add);
  return add != nullptr && fused_dropout(b, *add) == &dropout;
}

int make_mask(BlockBody& b, const OpSpec& dropout, int like) {
  const Tensor& t = b.builder().tensor(like);
  return b.extra(dropout.name + ".mask", t.shape, DType::uint8, t.layout, true);
}

void one_result(BlockBody& b, const OpSpec& op, ComputeTask task, std::vector<Operand> operands) {
  const int y = b.result(op.outputs[0], b.stored(op.outputs[0]));
  operands.push_back(write(y));
  b.builder().compute(op.name, std::move(task), std::move(operands), b.phase());
}

/// Bytes that PyTorch's eager operators move for an element, over those of one kernel.
/// What has a kernel of its own there (LayerNorm, GELU, addition, dropout) counts once. RMSNorm goes through fp32
/// (cast, square, mean, product, cast back, weight: 36 bytes for 4; backward 84 for 6), rotation too (cast, complex
/// product, cast back: 20 for 4), and a gated activation is two kernels (10 for 6; backward three, 18 for 10):
/// pytorch/torchtitan @9dec370, models/norms.py and models/llama/model.py. A squared ReLU is a ReLU and a power (8 for
/// 4); backward the power's is a copy, a factor and a product, then the ReLU's (20 for 6): pytorch/pytorch,
/// FunctionsManual.cpp, pow_backward.
struct EagerPasses {
  double norm = 9, norm_grad = 14, rotation = 5, gate = 10.0 / 6, gate_grad = 1.8, square = 2, square_grad = 10.0 / 3;
};
/// The same of a sum whose second term has a factor, an adapter's: a product, then the sum
/// (megatron/bridge/peft/utils.py, ParallelLinearAdapter.forward).
constexpr double kScaledSum = 10.0 / 6;
constexpr EagerPasses kEager;

void unless_fused(BlockBody& b, ComputeTask& t, double passes) {
  if (!b.options().kernels.fused_norm) t.passes = passes;
}

void unless_activation_fused(BlockBody& b, ComputeTask& t, double passes) {
  if (!b.options().kernels.fused_norm || !b.options().kernels.fused_activation) t.passes = passes;
}

// ---- norm

/// A norm over runs is told how long they are: splitting heads leaves whole runs.
ComputeTask norm_task(BlockBody& b, const OpSpec& op, ComputeOp kind) {
  ComputeTask t = pass(kind, std::string(name_of(op.kind)));
  t.epsilon = op.eps;
  if (op.kind != OpKind::grouped_rms_norm) return t;
  const BlockSpec& spec = *b.tensors().spec;
  const std::int64_t run = nth(spec.params, op.params[0]).elements() / op.groups;
  t.scalars = {static_cast<double>(run)};
  return t;
}

void norm_forward(BlockBody& b, const OpSpec& op) {
  ComputeTask t = norm_task(b, op, ComputeOp::norm);
  if (op.kind == OpKind::rms_norm) unless_fused(b, t, kEager.norm);
  const int x = b.value(op.inputs[0], b.stored(op.outputs[0]), op.name);
  std::vector<Operand> operands{read(x)};
  for (const int p : op.params) operands.push_back(read(b.param(p)));
  one_result(b, op, t, operands);
}

void norm_backward(BlockBody& b, const OpSpec& op) {
  const int dy = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dy < 0) return;
  const int x = b.value(op.inputs[0], b.stored(op.outputs[0]), op.name);
  const int dx = b.scratch_like(op.name + ".input_grad", x, b.builder().tensor(dy).layout);
  ComputeTask t = norm_task(b, op, ComputeOp::norm_grad);
  ComputeTask input = t;
  if (op.kind == OpKind::rms_norm) unless_fused(b, input, kEager.norm_grad);
  b.builder().compute(op.name + ".input_grad", input, {read(x), read(dy), read(b.param(op.params[0])), write(dx)},
                      Phase::input_grad);
  b.add_grad(op.inputs[0], dx, op.name);
  if (op.frozen) return;
  // The sums over tokens for weight and bias are a second pass.
  std::vector<Operand> operands{read(x), read(dy)};
  for (const int p : op.params) operands.push_back(update(b.grad_accumulator(p)));
  t.accumulates = true;
  b.builder().compute(op.name + ".weight_grad", t, operands, Phase::weight_grad);
}

// ---- dropout

void dropout_forward(BlockBody& b, const OpSpec& op) {
  if (fused_into_add(b, op)) return;
  const int x = b.value(op.inputs[0], b.stored(op.outputs[0]), op.name);
  ComputeTask t = pass(ComputeOp::dropout);
  t.probability = op.p;
  t.random = op.name;
  const int mask = make_mask(b, op, x);
  one_result(b, op, t, {read(x), write(mask)});
}

void dropout_backward(BlockBody& b, const OpSpec& op) {
  if (fused_into_add(b, op)) return;
  const int dy = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dy < 0 || !b.wants_grad(op.inputs[0])) return;
  const int dx = b.scratch_like(op.name + ".input_grad", dy, b.builder().tensor(dy).layout);
  ComputeTask t = pass(ComputeOp::dropout_grad);
  t.probability = op.p;
  b.builder().compute(op.name + ".input_grad", t, {read(dy), read(b.extra(op.name + ".mask")), write(dx)},
                      Phase::input_grad);
  b.add_grad(op.inputs[0], dx, op.name);
}

// ---- residual addition, with the dropout before it where fused

void add_forward(BlockBody& b, const OpSpec& op) {
  const OpSpec* dropout = fused_dropout(b, op);
  ComputeTask t = pass(dropout != nullptr ? ComputeOp::dropout_add : ComputeOp::add, op.factor != 1.0 ? "scaled" : "");
  if (op.factor != 1.0) {
    t.scalars = {op.factor};
    t.passes = b.fuses_adapters() ? BlockBody::kInProduct : kScaledSum;
    t.kernels = b.fuses_adapters() ? 0 : 2;
  } else if (added_by_batch_norm(b, op)) {
    constexpr double kShortcut = 1.0 / 3;  // Of two operands and the sum.
    t.passes = kShortcut;
  }
  std::vector<Operand> operands;
  for (const int input : op.inputs) {
    const bool dropped = dropout != nullptr && input == dropout->outputs[0];
    operands.push_back(read(b.value(dropped ? dropout->inputs[0] : input, b.stored(op.outputs[0]), op.name)));
  }
  if (dropout != nullptr) {
    t.probability = dropout->p;
    t.random = dropout->name;
    operands.push_back(write(make_mask(b, *dropout, operands[0].formal)));
    if (op.inputs[0] != dropout->outputs[0]) std::swap(operands[0], operands[1]);  // What is dropped comes first.
  }
  one_result(b, op, t, operands);
}

void add_backward(BlockBody& b, const OpSpec& op) {
  const int dy = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dy < 0) return;
  const OpSpec* dropout = fused_dropout(b, op);
  for (const int input : op.inputs) {
    if (op.factor != 1.0 && input == op.inputs[1]) {
      const int dx = b.scratch_like(op.name + ".input_grad", dy, b.builder().tensor(dy).layout);
      ComputeTask t = pass(ComputeOp::scale, "scaled");
      t.scalars = {op.factor};
      if (b.fuses_adapters()) t.passes = 0;
      b.builder().compute(op.name + ".input_grad", t, {read(dy), write(dx)}, Phase::input_grad);
      b.add_grad(input, dx, op.name);
      continue;
    }
    if (dropout == nullptr || input != dropout->outputs[0]) {
      b.add_grad(input, dy, op.name);
      continue;
    }
    const int dx = b.scratch_like(dropout->name + ".input_grad", dy, b.builder().tensor(dy).layout);
    ComputeTask t = pass(ComputeOp::dropout_add_grad);
    t.probability = dropout->p;
    b.builder().compute(dropout->name + ".input_grad", t, {read(dy), read(b.extra(dropout->name + ".mask")), write(dx)},
                        Phase::input_grad);
    b.add_grad(dropout->inputs[0], dx, dropout->name);
  }
}

// ---- activations

/// `passes`: of the eager operators; 1 where the activation is one of them, less where it is part of a product.
void activation_forward(BlockBody& b, const OpSpec& op, const char* variant, double passes) {
  std::vector<Operand> operands;
  for (const int input : op.inputs) operands.push_back(read(b.value(input)));
  ComputeTask t = pass(ComputeOp::activation, variant);
  if (passes > 1) unless_activation_fused(b, t, passes);
  if (passes < 1) t.passes = passes;
  one_result(b, op, std::move(t), operands);
}

void activation_backward(BlockBody& b, const OpSpec& op, const char* variant, double passes) {
  const int dy = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dy < 0) return;
  std::vector<Operand> operands{read(dy)};
  std::vector<int> dx;
  for (const int input : op.inputs) {
    const int x = b.value(input);
    operands.push_back(read(x));
    dx.push_back(b.scratch_like(op.name + ".input_grad", x, gradient_layout(b.stored(input))));
    operands.push_back(write(dx.back()));
  }
  ComputeTask t = pass(ComputeOp::activation_grad, variant);
  if (passes > 1) unless_activation_fused(b, t, passes);
  if (passes < 1) t.passes = passes;
  b.builder().compute(op.name + ".input_grad", std::move(t), operands, Phase::input_grad);
  for (std::size_t i = 0; i < dx.size(); ++i) b.add_grad(op.inputs[i], dx[i], op.name);
}

const SettingKey<bool> kGeluInProducts = declare_key(
    "framework.gelu_in_products", false, "GELU and its gradient run inside the products that write their operands.",
    {.detail = "cuBLASLt's epilogues GELU_AUX_BIAS and DGELU_BGRAD: forward, the product writes GELU's result beside "
               "its own; backward, the product that makes the result's gradient reads GELU's operand and writes the "
               "gradient of that."});

/// Of the bytes of GELU's own kernel. Forward reads x and writes y, of which the product writes x anyway; backward
/// reads dy and x and writes dx, where the product wrote dy.
double gelu_share(BlockBody& b, bool backward) {
  if (!kGeluInProducts(b.options().kernels)) return 1;
  constexpr double kForward = 1.0 / 2;
  return backward ? BlockBody::kInProduct : kForward;
}

const char* gelu_variant(const OpSpec& op) { return op.tanh_gelu ? "gelu_tanh" : "gelu"; }
void gelu_forward(BlockBody& b, const OpSpec& op) { activation_forward(b, op, gelu_variant(op), gelu_share(b, false)); }
void gelu_backward(BlockBody& b, const OpSpec& op) {
  activation_backward(b, op, gelu_variant(op), gelu_share(b, true));
}
void squared_relu_forward(BlockBody& b, const OpSpec& op) { activation_forward(b, op, "squared_relu", kEager.square); }
void squared_relu_backward(BlockBody& b, const OpSpec& op) {
  activation_backward(b, op, "squared_relu", kEager.square_grad);
}
void silu_forward(BlockBody& b, const OpSpec& op) { activation_forward(b, op, "silu_mul", kEager.gate); }
void silu_backward(BlockBody& b, const OpSpec& op) { activation_backward(b, op, "silu_mul", kEager.gate_grad); }

// ---- rotary embedding

/// Bytes that Megatron-LM's unfused rotation moves of an element, over those of one kernel: products with cosine and
/// sine, half of the elements negated, joined, added, joined with what does not turn, 24 for 4; backward the same
/// gradients, 20, and those of two slices, each into zeros of the whole, 14
/// (megatron/core/models/common/embeddings/rope_utils.py, _apply_rotary_pos_emb_bshd).
struct ScaledRotation {
  double forward = 6, backward = 8.5;
};
constexpr ScaledRotation kScaledRotation;

ComputeTask rotation(BlockBody& b, ComputeOp kind, const OpSpec& op) {
  ComputeTask t = pass(kind);
  t.scalars = {static_cast<double>(op.rotary_dim), op.rope_theta};
  if (op.scaled)
    t.passes = kind == ComputeOp::rope ? kScaledRotation.forward : kScaledRotation.backward;
  else
    unless_fused(b, t, kEager.rotation);
  return t;
}

void rope_forward(BlockBody& b, const OpSpec& op) {
  one_result(b, op, rotation(b, ComputeOp::rope, op), {read(b.value(op.inputs[0]))});
}

void rope_backward(BlockBody& b, const OpSpec& op) {
  const int dy = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dy < 0) return;
  const int dx = b.scratch_like(op.name + ".input_grad", dy, b.builder().tensor(dy).layout);
  b.builder().compute(op.name + ".input_grad", rotation(b, ComputeOp::rope_grad, op), {read(dy), write(dx)},
                      Phase::input_grad);
  b.add_grad(op.inputs[0], dx, op.name);
}

void curve_forward(BlockBody& b, const OpSpec& op) {
  activation_forward(b, op, std::string(name_of(op.kind)).c_str(), 1);
}
void curve_backward(BlockBody& b, const OpSpec& op) {
  activation_backward(b, op, std::string(name_of(op.kind)).c_str(), 1);
}

}  // namespace

[[maybe_unused]] const bool registered_ops_pointwise =
    lower_operators({"layer_norm", "rms_norm", "grouped_rms_norm"}, {norm_forward, norm_backward, saves_inputs}) &&
    lower_operators({"dropout"}, {dropout_forward, dropout_backward, saves_nothing}) &&
    lower_operators({"add"}, {add_forward, add_backward, saves_nothing}) &&
    lower_operators({"gelu"}, {gelu_forward, gelu_backward, saves_inputs}) &&
    lower_operators({"squared_relu"}, {squared_relu_forward, squared_relu_backward, saves_inputs}) &&
    lower_operators({"silu_mul"}, {silu_forward, silu_backward, saves_inputs}) &&
    lower_operators({"rope"}, {rope_forward, rope_backward, saves_nothing});

constinit const OpLowering kCurve{curve_forward, curve_backward, saves_inputs};

}  // namespace rehearse::ops
