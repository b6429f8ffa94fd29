#include "core/strategy/operators/fp8.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/program/fp8_format.hpp"
#include "core/strategy/bodies/recompute.hpp"
#include "core/strategy/operators/ops.hpp"

namespace rehearse {

namespace {
constexpr const char* kFp8Scales = ".fp8_scales";
}

namespace ops {

namespace {

enum class Role { input, weight, output_grad };

bool per_tensor(Fp8Recipe r) { return r == Fp8Recipe::delayed || r == Fp8Recipe::tensorwise; }

/// Whether one copy serves all products. torchao's products want theirs along the inner dimension everywhere.
bool one_copy(const ProgramFrame& f) {
  return per_tensor(f.fp8->recipe) && f.fp8->copies == Fp8Copies::one && f.narrow == DType::fp8 && !f.samples_first;
}

/// Scales (three roles) and largest values of this step, which make those of the next.
int state_of(BlockBody& b, const OpSpec& op) {
  ProgramFrame& f = b.builder().frame();
  Tensor t;
  t.name = b.tensors().spec->name + ".{layer}." + op.name + kFp8Scales;
  t.shape = {f.constant(6)};
  t.category = MemoryCategory::workspace;
  t.role = TensorRole::fp8_scales;
  t.part = "scales";
  t.initial = "zeros";
  return b.builder().bound(op.name + kFp8Scales, b.persistent(op.name + kFp8Scales, std::move(t)));
}

/// Elements of one row: what a token has, or what one output feature of a weight reads.
ExprId row_length(BlockBody& b, int formal) {
  const Tensor& t = b.builder().tensor(formal);
  const int rank = static_cast<int>(t.shape.size());
  return b.builder().frame().local_product(t, rank >= 3 ? 2 : 1, rank);
}

struct Cast {
  int from;
  OperandCopies to;
};

/// Whether the kernel that makes what is cast finds its largest value on the way: norms, and activations in both
/// directions, where kernels are fused (Transformer Engine #2004, #2013; torch.compile). Products and attention leave
/// that to a pass of its own, and so do all where fp4 takes it after a rotation that no other kernel does
/// (NVIDIA/TransformerEngine v2.8, normalization.cpp and activation.cpp).
bool largest_known(BlockBody& b, const OpSpec& op, Role role) {
  if (!b.options().kernels.fused_norm || role == Role::weight) return false;
  if (b.builder().frame().narrow == DType::fp4 && b.builder().frame().fp8->rotation) return false;
  const bool one_kernel = b.options().kernels.fused_activation;
  const auto activation = [one_kernel](const OpSpec& o) {
    return o.kind == OpKind::gelu || is_expert_activation(o.kind) || (one_kernel && o.kind == OpKind::silu_mul);
  };
  const auto norm = [](const OpSpec& o) { return o.kind == OpKind::layer_norm || o.kind == OpKind::rms_norm; };
  const auto& ops = b.tensors().spec->ops;
  const auto holds = [](const std::vector<int>& tensors, int t) {
    return std::find(tensors.begin(), tensors.end(), t) != tensors.end();
  };
  if (role == Role::input)
    return std::any_of(ops.begin(), ops.end(),
                       [&](const OpSpec& o) { return holds(o.outputs, op.inputs[0]) && (norm(o) || activation(o)); });
  return std::all_of(op.outputs.begin(), op.outputs.end(), [&](int t) {
    return std::any_of(ops.begin(), ops.end(), [&](const OpSpec& o) { return holds(o.inputs, t) && activation(o); });
  });
}

/// Whether the kernel that makes what is cast writes the copies itself.
bool cast_on_the_way(BlockBody& b, const OpSpec& op, Role role) {
  return b.options().kernels.fused_casts && b.builder().frame().fp8->recipe != Fp8Recipe::tensorwise &&
         largest_known(b, op, role);
}

/// Whether a fused kernel of the experts' products casts on its way: what their activation writes, in both directions.
bool cast_in_products(BlockBody& b, const OpSpec& op, Role role) {
  if (!b.options().kernels.fused_experts || op.kind != OpKind::grouped_linear || role == Role::weight) return false;
  const auto& ops = b.tensors().spec->ops;
  const std::vector<int>& cast = role == Role::input ? op.inputs : op.outputs;
  return std::any_of(ops.begin(), ops.end(), [&](const OpSpec& o) {
    const std::vector<int>& made = role == Role::input ? o.outputs : o.inputs;
    return is_expert_activation(o.kind) && std::find(made.begin(), made.end(), cast.front()) != made.end();
  });
}

/// The largest value over tensor-parallel ranks, which share a scale: torchao's scales are DTensors, and every cast
/// waits for its own.
void largest_of_all(BlockBody& b, int amax, const std::string& name, Phase phase) {
  ProgramFrame& f = b.builder().frame();
  if (f.program.mesh.islands().front().extent(Axis::tp) < 2) return;
  CollectiveTask c;
  c.op = CollectiveOp::all_reduce;
  c.reduce = ReduceOp::max;
  c.group = f.group("tp", {Axis::tp});
  Task task;
  task.name = name + ".amax.all_reduce";
  task.kind = c;
  task.operands = {update(amax)};
  task.stream = f.tp;
  task.phase = phase;
  b.builder().add(std::move(task));
}

/// What a kernel that torch.compile makes loses where it writes the other dimension: 1.4 of the 2.2 TB/s that its
/// others reach on an H100 of 2.4 TB/s (pytorch/pytorch #133242).
constexpr double kTurningPasses = 2.2 / 1.4;

/// Passes of a cast that writes these copies.
double passes_of(const ProgramFrame& f, Role role, bool rows, bool columns) {
  if (!f.samples_first || !columns) return 1;
  if (per_tensor(f.fp8->recipe)) return kTurningPasses;
  if (f.fp8->recipe != Fp8Recipe::rowwise) return 1;
  const double bytes = role == Role::input    ? kRowwiseBytes.input
                       : role == Role::weight ? kRowwiseBytes.weight
                                              : kRowwiseBytes.output_grad;
  return rows ? bytes / (kRowwiseBytes.rows + 1) : (bytes - kRowwiseBytes.rows) / kRowwiseBytes.rows;
}

/// The largest values of tensors, one each, that their scales are made of: `passes` over them, 0 where another kernel
/// finds them on its way.
int largest_values(BlockBody& b, const std::string& name, const std::vector<int>& tensors, double passes, Phase phase) {
  BodyBuilder& body = b.builder();
  Tensor largest;
  largest.name = b.tensors().spec->name + "." + name + ".amax";
  largest.shape = {body.frame().constant(static_cast<std::int64_t>(tensors.size()))};
  const int amax = body.scratch(name + ".amax", body.frame().add_tensor(std::move(largest)));
  std::vector<Operand> operands;
  for (const int t : tensors) operands.push_back(read(t));
  operands.push_back(write(amax));
  ComputeTask find = pass(ComputeOp::quantise, "amax");
  find.passes = passes;
  body.compute(name + ".amax", std::move(find), std::move(operands), phase);
  return amax;
}

/// One pass that reads each tensor and writes its copies.
void cast(BlockBody& b, const OpSpec& op, Role role, const std::string& name, const std::vector<Cast>& what,
          Phase phase) {
  BodyBuilder& body = b.builder();
  const Fp8Recipe recipe = body.frame().fp8->recipe;
  const Fp8Format format = role == Role::output_grad && per_tensor(recipe) ? kE5m2 : kE4m3;
  // No device has the rounding of NVFP4: runs are refused by this name.
  ComputeTask t = pass(ComputeOp::quantise, body.frame().narrow == DType::fp4 ? "nvfp4" : name_of(recipe));
  t.scalars = {static_cast<double>(format.mantissa), static_cast<double>(format.smallest), format.largest,
               static_cast<double>(role)};
  std::vector<Operand> operands;
  if (recipe == Fp8Recipe::delayed) operands.push_back(update(state_of(b, op)));
  if (recipe == Fp8Recipe::tensorwise) {
    std::vector<int> looked_at;
    for (const Cast& c : what) looked_at.push_back(c.from);
    const int amax = largest_values(b, name, looked_at, largest_known(b, op, role) ? 0 : 1, phase);
    if (body.frame().samples_first) largest_of_all(b, amax, name, phase);
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
  t.passes = cast_in_products(b, op, role) || cast_on_the_way(b, op, role)
                 ? 0
                 : passes_of(body.frame(), role, what.front().to.rows >= 0, what.front().to.columns >= 0);
  body.compute(name, std::move(t), std::move(operands), phase);
}

bool narrow(DType type) { return type == DType::fp8 || type == DType::fp4; }

bool keeps_copies(const Tensor& weight) { return weight.lifetime == Lifetime::persistent && !narrow(weight.dtype); }

OperandCopies kept_copies(BlockBody& b, const OpSpec& op, const Tensor& weight) {
  OperandCopies kept;
  for (int* copy : {&kept.rows, &kept.columns}) {
    if (copy == &kept.columns && one_copy(b.builder().frame())) break;
    const std::string name = op.name + (copy == &kept.rows ? ".weight.fp8" : ".weight.fp8_columns");
    Tensor t = weight;
    t.name = b.tensors().spec->name + ".{layer}." + name;
    t.dtype = b.builder().frame().narrow;
    t.initial = "zeros";
    t.initial_key.clear();
    t.part = "fp8";
    *copy = b.builder().bound(name, b.persistent(name, std::move(t)));
  }
  return kept;
}

/// PyTorch's fp8 products (torchao) want the operands of a weight gradient along the other dimension and turn what they
/// gathered: one more pass over the whole tensor, where a rank that casts its own part only would write both copies at
/// once.
int turned(BlockBody& b, int gathered, const std::string& name, Phase phase) {
  ProgramFrame& f = b.builder().frame();
  if (!per_tensor(f.fp8->recipe) || !f.samples_first) return gathered;
  const int out = b.scratch_like(name + ".turned", gathered, b.builder().tensor(gathered).layout);
  ComputeTask turn = pass(ComputeOp::copy);
  turn.passes = kTurningPasses;
  b.builder().compute(name + ".turn", std::move(turn), {read(gathered), write(out)}, phase);
  return out;
}

Phase cast_phase(BlockBody& b) {
  return b.phase() == Phase::forward || b.phase() == Phase::recompute ? b.phase() : Phase::input_grad;
}

}  // namespace

bool in_fp8(const ProgramFrame& frame, const BlockSpec& spec, const OpSpec& op) {
  if (!frame.fp8 || spec.input < 0 || spec.output < 0 || op.low_rank ||
      (op.kind != OpKind::linear && op.kind != OpKind::grouped_linear))
    return false;
  const Shape& weight = nth(spec.params, op.params.at(0)).shape;
  return std::all_of(weight.end() - 2, weight.end(), [](const Dim& d) { return d.size % 16 == 0; });
}

int input_made_again_by(const BlockTensors& tensors, const OpSpec& op) {
  const int writer = writer_of(*tensors.spec, op.inputs[0]);
  return writer < 0 ? -1 : nth(tensors.module_of, writer);
}

bool casts_gathered(const ProgramFrame& f) { return f.fp8 && f.fp8->recipe == Fp8Recipe::rowwise && f.samples_first; }

namespace {

/// Whether the copy of an op's input for backward is made in forward.
bool casts_ahead(const BlockTensors& tensors, const OpSpec& op) {
  const auto at = static_cast<std::size_t>(&op - tensors.spec->ops.data());
  return !(tensors.recompute_all || tensors.module_of[at] >= 0 || input_made_again_by(tensors, op) >= 0);
}

/// The product whose casts of its input `op` uses: the first of those that read it and keep it alike. torchao casts
/// what several products read once (PrepareFloat8ModuleInput; without tensor parallelism torch.compile drops equal
/// casts); elsewhere they are one product, or each has its own.
const OpSpec& casting_op(BlockBody& b, const OpSpec& op) {
  if (!b.builder().frame().samples_first || op.kind != OpKind::linear) return op;
  const auto& ops = b.tensors().spec->ops;
  return *std::find_if(ops.begin(), ops.end(), [&](const OpSpec& o) {
    return o.kind == OpKind::linear && o.inputs[0] == op.inputs[0] && in_fp8(b, o) &&
           casts_ahead(b.tensors(), o) == casts_ahead(b.tensors(), op);
  });
}

/// Name of what products share of their common input: `what` it is, in which layout, in which phase.
std::string shared_name(BlockBody& b, const OpSpec& casting, const char* what, const Layout& layout) {
  return casting.name + what + std::to_string(static_cast<int>(b.phase())) + to_string(layout);
}

int cast_rows(BlockBody& b, const OpSpec& by, const Layout& layout) {
  int& made = b.shared_formal(shared_name(b, by, ".cast", {}));
  if (made < 0) {
    const int x = casts_gathered(b.builder().frame()) ? b.value(by.inputs[0], layout, by.name) : b.value(by.inputs[0]);
    const Tensor t = b.builder().tensor(x);
    // Who runs again makes the copy for backward then.
    const bool keeps = !by.frozen && !casts_gathered(b.builder().frame()) &&
                       (b.phase() == Phase::recompute || !(b.drops() || input_made_again_by(b.tensors(), by) >= 0));
    const int kept = keeps ? b.extra(by.name + ".input.fp8_columns", t.shape, b.builder().frame().narrow,
                                     without_halos(t.layout), true)
                           : -1;
    const bool one = keeps && one_copy(b.builder().frame());
    made = one ? kept : b.scratch_like(by.name + ".input.fp8", x, b.builder().frame().narrow);
    cast(b, by, Role::input, by.name + ".input.cast", {{x, {made, one ? -1 : kept}}}, cast_phase(b));
  }
  return made;
}

}  // namespace

int fp8_input(BlockBody& b, const OpSpec& op, const Layout& layout) {
  const OpSpec& by = casting_op(b, op);
  const int rows = cast_rows(b, by, layout);
  if (b.builder().tensor(rows).layout == layout) return rows;
  int& brought = fp8_brought(b, op, layout);
  return brought >= 0 ? brought : brought = b.builder().redistribute(rows, layout, by.name, b.phase());
}

int& fp8_brought(BlockBody& b, const OpSpec& op, const Layout& layout) {
  return b.shared_formal(shared_name(b, casting_op(b, op), ".rows", layout));
}

int fp8_input_again(BlockBody& b, const OpSpec& op, const Layout& layout) {
  const OpSpec& by = casting_op(b, op);
  int& made = b.shared_formal(shared_name(b, by, ".columns", layout));
  if (made >= 0) return made;
  if (casts_gathered(b.builder().frame())) {
    const int x = b.value(by.inputs[0], layout, by.name + ".again");
    made = b.scratch_like(by.name + ".input.fp8_columns", x, b.builder().frame().narrow);
    cast(b, by, Role::input, by.name + ".input.cast_again", {{x, {-1, made}}}, Phase::weight_grad);
    return made;
  }
  const int own = b.extra(by.name + ".input.fp8_columns"),
            whole = b.builder().redistribute(own, layout, by.name + ".again", b.phase());
  return made = whole == own ? own : turned(b, whole, by.name + ".input", b.phase());
}

OperandCopies fp8_weight(BlockBody& b, const OpSpec& op) {
  const int w = b.param(op.params[0]);
  const Tensor whole = b.builder().tensor(w);
  if (narrow(whole.dtype)) return {w, w};
  if (!keeps_copies(whole)) {
    const bool forward = b.phase() == Phase::forward || b.phase() == Phase::recompute;
    OperandCopies made;
    (forward ? made.rows : made.columns) = b.scratch_like(op.name + ".weight.fp8", w, b.builder().frame().narrow);
    cast(b, op, Role::weight, op.name + ".weight.cast", {{w, made}}, cast_phase(b));
    return made;
  }
  OperandCopies kept = kept_copies(b, op, whole);
  if (kept.columns < 0) kept.columns = kept.rows;
  return kept;
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

std::vector<OperandCopies> fp8_output_grads(BlockBody& b, const OpSpec& op,
                                            Layout (*layout)(BlockBody&, const OpSpec&, int)) {
  std::vector<Cast> casts;
  std::vector<OperandCopies> out;
  for (const int t : op.outputs) {
    const int g =
        b.grad(t, gradient_layout(casts_gathered(b.builder().frame()) ? layout(b, op, t) : b.stored(t)), op.name);
    if (g < 0) return {};
    const bool moves = gradient_layout(layout(b, op, t)) != b.builder().tensor(g).layout;
    OperandCopies made{b.scratch_like(op.name + ".output_grad.fp8", g, b.builder().frame().narrow), -1};
    if (!moves && !op.frozen && !one_copy(b.builder().frame()))
      made.columns = b.scratch_like(op.name + ".output_grad.fp8_columns", g, b.builder().frame().narrow);
    casts.push_back({g, made});
  }
  cast(b, op, Role::output_grad, op.name + ".output_grad.cast", casts, Phase::input_grad);
  for (std::size_t i = 0; i < casts.size(); ++i) {
    OperandCopies made = casts[i].to;
    if (made.columns < 0) {
      made.rows = b.builder().redistribute(made.rows, gradient_layout(layout(b, op, op.outputs[i])), op.name,
                                           Phase::input_grad);
      if (!op.frozen) made.columns = turned(b, made.rows, op.name + ".output_grad", Phase::input_grad);
    }
    out.push_back(made);
  }
  return out;
}

bool attention_in_fp8(const ProgramFrame& f) { return f.fp8 && f.fp8->attention; }

DType attention_arithmetic(const ProgramFrame& f) {
  return f.fp8->recipe == Fp8Recipe::mxfp8 ? DType::mxfp8 : DType::fp8;
}

int fp8_attention_operand(BlockBody& b, const OpSpec& op, const std::string& what, int formal, bool made_before) {
  BodyBuilder& body = b.builder();
  const bool blocks = attention_arithmetic(body.frame()) == DType::mxfp8, gradient = what == "output_grad";
  const std::string name = op.name + "." + what + ".cast";
  const Phase phase = cast_phase(b);
  const Fp8Format format = gradient && !blocks ? kE5m2 : kE4m3;
  ComputeTask t = pass(ComputeOp::quantise, name_of(blocks ? Fp8Recipe::mxfp8 : Fp8Recipe::tensorwise));
  t.scalars = {static_cast<double>(format.mantissa),
               static_cast<double>(format.smallest),
               format.largest,
               static_cast<double>(gradient ? Role::output_grad : Role::input),
               1.0,
               blocks ? 1.0 : 0.0};
  t.dims = {row_length(b, formal)};
  t.passes = made_before ? 0 : 1;
  std::vector<Operand> operands;
  if (!blocks) operands.push_back(read(largest_values(b, name, {formal}, made_before ? 0 : 1, phase)));
  const int rows = b.scratch_like(op.name + "." + what + ".fp8", formal, DType::fp8);
  operands.insert(operands.end(), {read(formal), write(rows)});
  // Products along the sequence read blocks along the sequence.
  if (blocks) operands.push_back(write(b.scratch_like(op.name + "." + what + ".fp8_columns", formal, DType::fp8)));
  body.compute(name, std::move(t), std::move(operands), phase);
  return rows;
}

}  // namespace ops

}  // namespace rehearse
