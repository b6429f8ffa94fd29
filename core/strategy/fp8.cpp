#include "core/strategy/fp8.hpp"

#include <algorithm>

#include "core/program/fp8_format.hpp"
#include "core/strategy/ops.hpp"
#include "core/strategy/recompute.hpp"

namespace rehearse {

namespace {
constexpr const char* kFp8Scales = ".fp8_scales";
}

bool is_fp8_scales(const std::string& name) { return name.ends_with(kFp8Scales); }

namespace ops {

namespace {

enum class Role { input, weight, output_grad };

bool per_tensor(Fp8Recipe r) { return r == Fp8Recipe::delayed || r == Fp8Recipe::tensorwise; }

/// Scales (three roles) and largest values of this step, which make those of the next.
int state_of(BlockBody& b, const OpSpec& op) {
  ProgramFrame& f = b.builder().frame();
  Tensor t;
  t.name = b.tensors().spec->name + ".{layer}." + op.name + kFp8Scales;
  t.shape = {f.constant(6)};
  t.category = MemoryCategory::workspace;
  t.initial = "zeros";
  return b.builder().bound(op.name + kFp8Scales, b.persistent(op.name + kFp8Scales, std::move(t)));
}

/// Elements of one row: what a token has, or what one output feature of a weight reads.
ExprId row_length(BlockBody& b, int formal) {
  const Tensor& t = b.builder().tensor(formal);
  const int rank = static_cast<int>(t.shape.size());
  return b.builder().frame().local_product(t, rank >= 3 ? 2 : 1, rank);
}

struct Cast { int from; Fp8Copies to; };

/// Whether the kernel that makes what is cast finds its largest value on the way: norms, and activations in both directions, where kernels are
/// fused (Transformer Engine #2004, #2013; torch.compile); that of fp4 is taken after a rotation that no other kernel does. Products and attention leave that to a pass of its own.
bool largest_known(BlockBody& b, const OpSpec& op, Role role) {
  if (!b.options().kernels.fused_norm || role == Role::weight || b.builder().frame().narrow == DType::fp4) return false;
  const auto activation = [](const OpSpec& o) { return o.kind == OpKind::gelu || o.kind == OpKind::silu_mul || o.kind == OpKind::weighted_silu_mul; };
  const auto norm = [](const OpSpec& o) { return o.kind == OpKind::layer_norm || o.kind == OpKind::rms_norm; };
  const auto& ops = b.tensors().spec->ops;
  const auto holds = [](const std::vector<int>& tensors, int t) { return std::find(tensors.begin(), tensors.end(), t) != tensors.end(); };
  if (role == Role::input) return std::any_of(ops.begin(), ops.end(), [&](const OpSpec& o) { return holds(o.outputs, op.inputs[0]) && (norm(o) || activation(o)); });
  return std::all_of(op.outputs.begin(), op.outputs.end(), [&](int t) { return std::any_of(ops.begin(), ops.end(), [&](const OpSpec& o) { return holds(o.inputs, t) && activation(o); }); });
}

/// Whether a fused kernel of the experts' products casts on its way: what their activation writes, in both directions.
bool cast_in_products(BlockBody& b, const OpSpec& op, Role role) {
  if (!b.options().kernels.fused_experts || op.kind != OpKind::grouped_linear || role == Role::weight) return false;
  const auto& ops = b.tensors().spec->ops;
  const std::vector<int>& cast = role == Role::input ? op.inputs : op.outputs;
  return std::any_of(ops.begin(), ops.end(), [&](const OpSpec& o) {
    const std::vector<int>& made = role == Role::input ? o.outputs : o.inputs;
    return o.kind == OpKind::weighted_silu_mul && std::find(made.begin(), made.end(), cast.front()) != made.end();
  });
}

/// One pass that reads each tensor and writes its copies.
void cast(BlockBody& b, const OpSpec& op, Role role, const std::string& name, const std::vector<Cast>& what, Phase phase) {
  BodyBuilder& body = b.builder();
  const Fp8Recipe recipe = body.frame().fp8->recipe;
  const Fp8Format format = role == Role::output_grad && per_tensor(recipe) ? kE5m2 : kE4m3;
  ComputeTask t = pass(ComputeOp::quantise, name_of(recipe));
  t.scalars = {static_cast<double>(format.mantissa), static_cast<double>(format.smallest), format.largest, static_cast<double>(role)};
  if (cast_in_products(b, op, role)) t.passes = 0;
  std::vector<Operand> operands;
  if (recipe == Fp8Recipe::delayed) operands.push_back(update(state_of(b, op)));
  if (recipe == Fp8Recipe::tensorwise) {
    Tensor largest;
    largest.name = b.tensors().spec->name + "." + name + ".amax";
    largest.shape = {body.frame().constant(static_cast<std::int64_t>(what.size()))};
    const int amax = body.scratch(name + ".amax", body.frame().add_tensor(std::move(largest)));
    std::vector<Operand> looked_at;
    for (const Cast& c : what) looked_at.push_back(read(c.from));
    looked_at.push_back(write(amax));
    ComputeTask find = pass(ComputeOp::quantise, "amax");
    if (largest_known(b, op, role)) find.passes = 0;
    body.compute(name + ".amax", std::move(find), looked_at, phase);
    operands.push_back(read(amax));
  }
  for (const Cast& c : what) {
    t.dims.push_back(row_length(b, c.from));
    operands.push_back(read(c.from));
    if (c.to.rows >= 0) operands.push_back(write(c.to.rows));
    if (c.to.columns >= 0) operands.push_back(write(c.to.columns));
  }
  // Which copies there are: a kernel tells them by their order.
  t.scalars.push_back(what.front().to.rows >= 0 ? 1 : 0);
  t.scalars.push_back(what.front().to.columns >= 0 ? 1 : 0);
  body.compute(name, std::move(t), std::move(operands), phase);
}

bool keeps_copies(const Tensor& weight) { return weight.lifetime == Lifetime::persistent && weight.dtype != DType::fp8; }

Fp8Copies kept_copies(BlockBody& b, const OpSpec& op, const Tensor& weight) {
  Fp8Copies kept;
  for (int* copy : {&kept.rows, &kept.columns}) {
    const std::string name = op.name + (copy == &kept.rows ? ".weight.fp8" : ".weight.fp8_columns");
    Tensor t = weight;
    t.name = b.tensors().spec->name + ".{layer}." + name;
    t.dtype = b.builder().frame().narrow;
    t.initial = "zeros";
    t.initial_key.clear();
    *copy = b.builder().bound(name, b.persistent(name, std::move(t)));
  }
  return kept;
}

/// PyTorch's fp8 products (torchao) want the operands of a weight gradient along the other dimension and turn what they gathered: one more pass over
/// the whole tensor, where a rank that casts its own part only would write both copies at once.
int turned(BlockBody& b, int gathered, const std::string& name, Phase phase) {
  ProgramFrame& f = b.builder().frame();
  if (!per_tensor(f.fp8->recipe) || !f.samples_first) return gathered;
  const int out = b.scratch_like(name + ".turned", gathered, b.builder().tensor(gathered).layout);
  b.builder().compute(name + ".turn", pass(ComputeOp::copy), {read(gathered), write(out)}, phase);
  return out;
}

Phase cast_phase(BlockBody& b) { return b.phase() == Phase::forward || b.phase() == Phase::recompute ? b.phase() : Phase::input_grad; }

}  // namespace

bool in_fp8(const ProgramFrame& frame, const BlockSpec& spec, const OpSpec& op) {
  if (!frame.fp8 || spec.input < 0 || spec.output < 0 || (op.kind != OpKind::linear && op.kind != OpKind::grouped_linear)) return false;
  const Shape& weight = spec.params[static_cast<std::size_t>(op.params.at(0))].shape;
  return std::all_of(weight.end() - 2, weight.end(), [](const Dim& d) { return d.size % 16 == 0; });
}

int input_made_again_by(const BlockTensors& tensors, const OpSpec& op) {
  const int writer = writer_of(*tensors.spec, op.inputs[0]);
  return writer < 0 ? -1 : tensors.module_of[static_cast<std::size_t>(writer)];
}

int fp8_input(BlockBody& b, const OpSpec& op, const Layout& layout) {
  const int x = b.value(op.inputs[0]);
  const Tensor t = b.builder().tensor(x);
  const int rows = b.scratch_like(op.name + ".input.fp8", x, b.builder().frame().narrow);
  // Who runs again makes the copy for backward then.
  const bool keeps = b.phase() == Phase::recompute || !(b.drops() || input_made_again_by(b.tensors(), op) >= 0);
  const int columns = keeps ? b.extra(op.name + ".input.fp8_columns", t.shape, b.builder().frame().narrow, without_halos(t.layout), true) : -1;
  cast(b, op, Role::input, op.name + ".input.cast", {{x, {rows, columns}}}, cast_phase(b));
  return b.builder().redistribute(rows, layout, op.name, b.phase());
}

int fp8_input_again(BlockBody& b, const OpSpec& op, const Layout& layout) {
  const int own = b.extra(op.name + ".input.fp8_columns"), whole = b.builder().redistribute(own, layout, op.name + ".again", b.phase());
  return whole == own ? own : turned(b, whole, op.name + ".input", b.phase());
}

Fp8Copies fp8_weight(BlockBody& b, const OpSpec& op) {
  const int w = b.param(op.params[0]);
  const Tensor whole = b.builder().tensor(w);
  if (whole.dtype == DType::fp8) return {w, w};
  if (!keeps_copies(whole)) {
    const bool forward = b.phase() == Phase::forward || b.phase() == Phase::recompute;
    Fp8Copies made;
    (forward ? made.rows : made.columns) = b.scratch_like(op.name + ".weight.fp8", w, b.builder().frame().narrow);
    cast(b, op, Role::weight, op.name + ".weight.cast", {{w, made}}, cast_phase(b));
    return made;
  }
  return kept_copies(b, op, whole);
}

bool fp8_cast_weights(BlockBody& b) {
  bool any = false;
  for (const OpSpec& op : b.tensors().spec->ops) {
    if (!in_fp8(b, op) || !keeps_copies(b.param_tensor(op.params[0]))) continue;
    const int w = b.param(op.params[0]);
    const Tensor whole = b.builder().tensor(w);
    cast(b, op, Role::weight, op.name + ".weight.cast", {{w, kept_copies(b, op, whole)}}, Phase::forward);
    any = true;
  }
  return any;
}

std::vector<Fp8Copies> fp8_output_grads(BlockBody& b, const OpSpec& op, Layout (*layout)(BlockBody&, const OpSpec&, int)) {
  std::vector<Cast> casts;
  std::vector<Fp8Copies> out;
  for (const int t : op.outputs) {
    const int g = b.grad(t, gradient_layout(b.stored(t)), op.name);
    if (g < 0) return {};
    const bool moves = gradient_layout(layout(b, op, t)) != b.builder().tensor(g).layout;
    Fp8Copies made{b.scratch_like(op.name + ".output_grad.fp8", g, b.builder().frame().narrow), -1};
    if (!moves) made.columns = b.scratch_like(op.name + ".output_grad.fp8_columns", g, b.builder().frame().narrow);
    casts.push_back({g, made});
  }
  cast(b, op, Role::output_grad, op.name + ".output_grad.cast", casts, Phase::input_grad);
  for (std::size_t i = 0; i < casts.size(); ++i) {
    Fp8Copies made = casts[i].to;
    if (made.columns < 0) {
      made.rows = b.builder().redistribute(made.rows, gradient_layout(layout(b, op, op.outputs[i])), op.name, Phase::input_grad);
      made.columns = turned(b, made.rows, op.name + ".output_grad", Phase::input_grad);
    }
    out.push_back(made);
  }
  return out;
}

}  // namespace ops

}  // namespace rehearse
