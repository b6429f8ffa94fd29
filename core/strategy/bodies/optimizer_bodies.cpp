// The parameter update: what each rule keeps, and the tasks it takes. A rule that needs norms of whole tensors sums
// them over the ranks that hold parts of one.

#include <algorithm>

#include "core/base/index.hpp"
#include "core/config/setting_key.hpp"
#include "core/config/settings/training.hpp"
#include "core/program/parts.hpp"
#include "core/strategy/bodies/optimizer_state.hpp"
#include "core/strategy/bodies/step_bodies.hpp"
#include "core/strategy/operators/ops.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

// Constants of the updates that no setting changes: PyTorch's defaults for Adam, the usual momentum and norm, LAMB's
// epsilon (You et al. 2020, appendix H), Adafactor's of its section 8.
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kAdamEpsilon = 1e-8, kLambEpsilon = 1e-6, kMomentum = 0.9,
                 kMaxNorm = 1.0;
constexpr double kAdafactorEpsilon1 = 1e-30, kAdafactorEpsilon2 = 1e-3, kAdafactorDecay = 0.8;

const SettingKey<std::int64_t> kUpdateCopies = declare_key(
    "framework.update_copies", std::int64_t{0}, "Copies of a moment that the update makes of all parameters at once.",
    {.least = 0,
     .most = 4,
     .detail = "With adam and adamw. PyTorch's foreach form makes one: torch._foreach_sqrt of all second moments "
               "(torch/optim/adamw.py, _multi_tensor_adamw). Fused forms make none.",
     .example = "1"});

AxisSet split_axes(const Layout& layout) {
  AxisSet out;
  for (const auto& [axis, l] : layout)
    if (std::holds_alternative<Shard>(l)) out.insert(axis);
  return out;
}

AxisSet without(const AxisSet& axes, const AxisSet& others) {
  AxisSet out;
  for (int a = 0; a < kAxisCount; ++a)
    if (const auto axis = static_cast<Axis>(a); axes.contains(axis) && !others.contains(axis)) out.insert(axis);
  return out;
}

/// Row or column statistics of a matrix [rows, columns...]; experts have matrices of their own. Slices of the flattened
/// matrix divide neither.
Tensor factor_of(Tensor t, const ParamSpec& spec, bool rows) {
  const int first = spec.shape.front().tag == DimTag::experts ? 1 : 0;
  std::vector<int> kept;
  for (int d = 0; d < static_cast<int>(t.shape.size()); ++d)
    if (d < first || (d == first) == rows) kept.push_back(d);
  Layout layout;
  for (const auto& [axis, l] : t.layout) {
    const auto* s = std::get_if<Shard>(&l);
    const auto at = s == nullptr || s->flat ? kept.end() : std::find(kept.begin(), kept.end(), s->dim);
    if (at == kept.end()) continue;
    Shard moved = *s;
    moved.dim = static_cast<int>(at - kept.begin());
    layout.emplace_back(axis, moved);
  }
  std::vector<ExprId> shape;
  for (const int d : kept) shape.push_back(nth(t.shape, d));
  t.shape = std::move(shape);
  t.layout = std::move(layout);
  if (!rows) t.segments.clear();
  return t;
}

bool is_matrix(const Tensor& weights) { return weights.shape.size() >= 2; }

}  // namespace

Layout StepBodies::state_layout(const Tensor& param) const {
  Layout out = param.layout;
  const Layout& extra = optimizer_of(param.layout);
  out.insert(out.end(), extra.begin(), extra.end());
  return out;
}

void StepBodies::make_optimizer_state(ParamState& s, const ParamSpec& spec, const Tensor& param, bool embedding) {
  Tensor state = param;
  if (plan_.optimizer_on_host) state.space = MemorySpace::host;
  state.layout = state_layout(param);
  state.dtype = DType::fp32;
  state.category = MemoryCategory::optimizer;
  if (state.initial_key.empty()) state.initial_key = state.name;
  const auto add = [&](const char* part, Tensor t) {
    t.name += std::string(".") + part;
    t.part += part;
    s.state.push_back(frame_.add_tensor(std::move(t)));
  };
  if (frame_.mixed) {
    state.dtype = master_dtype(workload_);
    add(kMasterPart, state);
  }
  state.initial = "zeros";
  const Program& program = frame_.program;
  const MomentStorage stored =
      moment_storage(workload_, frame_, program.local_elements(state, program.mesh.context(0)), embedding);
  state.dtype = stored.dtype;
  const auto moments = [&](const std::vector<const char*>& names) {
    for (const char* name : names) add(name, state);
    for (const char* name : names)
      if (stored.block > 0) add(name, scales_of(frame_, state, stored.block));
  };
  switch (workload_.training.optimizer) {
    case Optimizer::sgd: return moments({"momentum"});
    case Optimizer::adam:
    case Optimizer::adamw:
    case Optimizer::lamb: return moments({"exp_avg", "exp_avg_sq"});
    case Optimizer::adafactor: break;
  }
  if (!is_matrix(param)) return add("exp_avg_sq", state);
  add("row_avg_sq", factor_of(state, spec, true));
  add("column_avg_sq", factor_of(state, spec, false));
}

ComputeTask StepBodies::optimizer_task() const {
  const TrainingSettings& t = workload_.training;
  ComputeTask step = ops::pass(ComputeOp::optimizer, name_of(t.optimizer));
  switch (t.optimizer) {
    case Optimizer::sgd: step.scalars = {t.learning_rate, t.weight_decay, kMomentum}; break;
    case Optimizer::adam:
    case Optimizer::adamw: step.scalars = {t.learning_rate, t.weight_decay, kBeta1, kBeta2, kAdamEpsilon}; break;
    case Optimizer::lamb: step.scalars = {t.learning_rate, t.weight_decay, kBeta1, kBeta2, kLambEpsilon}; break;
    case Optimizer::adafactor:
      step.scalars = {t.learning_rate,
                      t.weight_decay,
                      kAdafactorEpsilon1,
                      kAdafactorEpsilon2,
                      t.adafactor.clip_threshold,
                      kAdafactorDecay,
                      t.adafactor.relative_step ? 1.0 : 0.0,
                      t.adafactor.scale_parameter ? 1.0 : 0.0};
  }
  return step;
}

/// Weights that a framework holds for a parameter: each local expert has its own.
int StepBodies::weights_of(const ParamRef& p) const {
  const BlockTensors& block = nth(blocks_, p.block);
  const auto param = static_cast<std::size_t>(p.param);
  if (block.spec->params[param].shape.front().tag != DimTag::experts) return 1;
  const Program& program = frame_.program;
  return static_cast<int>(program.local_extent(nth(program.tensors, block.param[param]), 0, program.mesh.context(0)));
}

void StepBodies::update_in_one_pass(BodyBuilder& body, const std::vector<Updated>& all) {
  std::vector<Operand> operands;
  for (const Updated& u : all) {
    operands.push_back(read(u.gradient));
    operands.push_back(update(u.weights));
    for (const int t : u.state) operands.push_back(update(t));
  }
  ComputeTask step = optimizer_task();
  // The host has read the norm, and the device waits for what it does tensor by tensor.
  const bool waits = workload_.training.clip_gradients && !workload_.kernels.clip_on_device;
  if (waits && !plan_.optimizer.empty() && !plan_.shard_parameters) {
    step.kernels = 0;
    for (const Updated& u : all) step.kernels += weights_of(u.param);
  }
  body.compute("update", std::move(step), operands, Phase::optimizer);
}

int StepBodies::numbers(BodyBuilder& body, const Updated& u, const char* name, int count) {
  Tensor t;
  t.name = body.tensor(u.weights).name + "." + name;
  t.shape = {frame_.constant(count)};
  t.category = MemoryCategory::workspace;
  return body.scratch(name, frame_.add_tensor(std::move(t)));
}

void StepBodies::sum_over(BodyBuilder& body, const std::map<AxisSet, std::vector<Operand>>& what,
                          const std::string& name) {
  for (const auto& [axes, operands] : what) {
    if (axes.empty() || plan_.central_update) continue;
    CollectiveTask c;
    c.op = CollectiveOp::all_reduce;
    c.group = frame_.group("parts", axes);
    body.add({.name = name,
              .kind = c,
              .operands = operands,
              .stream = frame_.dp,
              .phase = Phase::optimizer,
              .predicate = ExprPool::kOne});
  }
}

/// LAMB (You et al. 2020, algorithm 2): moments and the direction's norm; norms of whole tensors; the step, scaled by
/// their ratio.
void StepBodies::update_lamb(BodyBuilder& body, const std::vector<Updated>& all) {
  std::vector<Operand> moments, step;
  std::map<AxisSet, std::vector<Operand>> sums;
  for (const Updated& u : all) {
    const int norms = numbers(body, u, "norms", 2);
    for (const Operand& o : {read(u.gradient), read(u.weights), update(u.state[0]), update(u.state[1]), write(norms)})
      moments.push_back(o);
    sums[split_axes(body.tensor(u.weights).layout)].push_back(update(norms));
    for (const Operand& o : {update(u.weights), read(u.state[0]), read(u.state[1]), read(norms)}) step.push_back(o);
  }
  ComputeTask first = optimizer_task();
  first.variant = "lamb_moments";
  body.compute("moments", std::move(first), moments, Phase::optimizer);
  sum_over(body, sums, "norms");
  body.compute("update", optimizer_task(), step, Phase::optimizer);
}

/// Adafactor (Shazeer & Stern 2018, algorithms 4 and 5): sums of squares by row and column; statistics and the root
/// mean square of the update; the update, clipped.
void StepBodies::update_adafactor(BodyBuilder& body, const std::vector<Updated>& all) {
  std::vector<Operand> squares, statistics, step;
  std::map<AxisSet, std::vector<Operand>> sums, norms;
  for (const Updated& u : all) {
    const Tensor weights = body.tensor(u.weights);
    const AxisSet parts = split_axes(weights.layout);
    const int size = numbers(body, u, "squares", 1), change = numbers(body, u, "change", 1);
    for (const Operand& o : {read(u.gradient), read(u.weights), write(size)}) squares.push_back(o);
    for (const Operand& o : {read(u.gradient), write(change)}) statistics.push_back(o);
    for (const Operand& o : {read(u.gradient), update(u.weights), read(size), read(change)}) step.push_back(o);
    sums[parts].push_back(update(size));
    norms[parts].push_back(update(change));
    for (const int t : u.state) {
      if (is_matrix(weights)) {
        Tensor sum = body.tensor(t);
        sum.name += ".sum";
        sum.lifetime = Lifetime::scratch;
        sum.category = MemoryCategory::workspace;
        sum.per_layer = false;
        sum.initial.clear();
        const AxisSet across = without(parts, split_axes(sum.layout));
        const int f = body.scratch("sum", frame_.add_tensor(std::move(sum)));
        squares.push_back(write(f));
        sums[across].push_back(update(f));
        statistics.push_back(read(f));
      }
      statistics.push_back(update(t));
      step.push_back(read(t));
    }
  }
  const auto task = [&](ComputeOp op, const char* variant) {
    ComputeTask t = optimizer_task();
    t.op = op;
    t.variant = variant;
    return t;
  };
  body.compute("squares", task(ComputeOp::square_sum, "adafactor"), squares, Phase::optimizer);
  sum_over(body, sums, "squares");
  body.compute("statistics", task(ComputeOp::statistics, "adafactor"), statistics, Phase::optimizer);
  sum_over(body, norms, "change");
  body.compute("update", optimizer_task(), step, Phase::optimizer);
}

/// A copy of a persistent tensor in host memory.
int StepBodies::on_host_of(int tensor) {
  Tensor t = nth(frame_.program.tensors, tensor);
  t.name += ".host";
  t.space = MemorySpace::host;
  t.alias_of = -1;
  t.lifetime = Lifetime::persistent;
  t.category = MemoryCategory::gradients;
  return frame_.add_tensor(std::move(t));
}

/// The update runs on CPU cores, parameter by parameter; each goes back to the device while the next is updated (Ren et
/// al. 2021, sec. 4), but for slices that stay there until they are gathered.
void StepBodies::update_on_host(BodyBuilder& body, const ParamRef& p, const InstanceRef& at) {
  const ParamState& s = state(p);
  std::vector<Operand> operands{read(body.bound("gradient", s.host_gradient, {at, false, false}))};
  for (const int t : s.state) operands.push_back(update(body.bound("state", t, {at, false, false})));
  const bool stays = s.sharded && plan_.parameters_on_host;
  if (stays && s.updated >= 0) operands.push_back(update(body.bound("updated", s.updated, {at, false, false})));
  const auto add_update = [&] {
    body.add({.name = "update",
              .kind = optimizer_task(),
              .operands = operands,
              .stream = frame_.host,
              .phase = Phase::optimizer,
              .predicate = ExprPool::kOne});
  };
  if (stays) return add_update();
  Tensor staged = nth(frame_.program.tensors, s.updated);
  staged.name += ".staged";
  staged.space = MemorySpace::pinned_host;
  staged.lifetime = Lifetime::scratch;
  staged.alias_of = -1;
  staged.per_layer = false;
  staged.initial.clear();
  const int out = body.scratch("staged", frame_.add_tensor(std::move(staged)));
  operands.push_back(write(out));
  add_update();
  body.add({.name = "to_device",
            .kind = CopyTask{},
            .operands = {read(out), write(body.bound("updated", s.updated, {at, false, false}))},
            .stream = frame_.copies,
            .phase = Phase::other,
            .predicate = ExprPool::kOne});
}

void StepBodies::fill_to_host(BodyBuilder& body, const std::vector<ParamRef>& params, int base) {
  std::vector<Operand> operands;
  for (const ParamRef& p : params) {
    const InstanceRef at{p.position - base, 0, 0};
    operands.push_back(read(body.bound("reduced", state(p).reduced, {at, false, state(p).passes})));
    operands.push_back(write(body.bound("host", state(p).host_gradient, {at, false, false})));
  }
  body.add({.name = "to_host",
            .kind = CopyTask{},
            .operands = operands,
            .stream = frame_.copies_out,
            .phase = Phase::other,
            .predicate = ExprPool::kOne});
}

StepBodies::Made StepBodies::to_host(const std::vector<ParamRef>& params, int base) {
  return cached("gradients.to_host", params, base, &StepBodies::fill_to_host);
}

void StepBodies::fill_update(BodyBuilder& body, const std::vector<ParamRef>& params, int base) {
  std::vector<Operand> clip, copy, zero;
  std::vector<Updated> updated;
  for (const ParamRef& p : params) {
    const InstanceRef at{p.position - base, 0, 0};
    const ParamState& s = state(p);
    // Slices are overwritten by the next step's first reduction.
    const auto zero_gradient = [&] {
      if (!s.divided && !s.passes) zero.push_back(write(body.bound("grad", grad_tensor(p), {at, false, false})));
    };
    if (s.host_gradient >= 0) {
      update_on_host(body, p, at);
      zero_gradient();
      continue;
    }
    if (s.passes && !s.divided) body.bound("grad", grad_tensor(p), {at, false, true});
    Updated u{p, body.bound("reduced", s.reduced, {at, false, s.passes && s.divided}), -1, {}};
    clip.push_back(update(u.gradient));
    const int param = s.updated >= 0 ? body.bound("updated", s.updated, {at, false, false}) : -1;
    for (const int t : s.state) u.state.push_back(body.bound("state", t, {at, false, false}));
    if (frame_.mixed) {
      u.weights = u.state.front();
      u.state.erase(u.state.begin());
      if (param >= 0) copy.push_back(write(param));
      if (param >= 0) copy.push_back(read(u.weights));
    } else {
      u.weights = param;
    }
    updated.push_back(std::move(u));
    zero_gradient();
  }
  if (workload_.training.clip_gradients && !clip.empty()) {
    clip.push_back(read(body.bound("norm", norm_)));
    ComputeTask scale = ops::pass(ComputeOp::scale, "clip");
    scale.scalars = {kMaxNorm};
    body.compute("clip", scale, clip, Phase::optimizer);
  }
  if (!updated.empty()) {
    const Optimizer rule = workload_.training.optimizer;
    if (rule == Optimizer::lamb)
      update_lamb(body, updated);
    else if (rule == Optimizer::adafactor)
      update_adafactor(body, updated);
    else
      update_in_one_pass(body, updated);
  }
  if (!copy.empty()) body.compute("to_model_dtype", ops::pass(ComputeOp::cast, "from_master"), copy, Phase::optimizer);
  if (!zero.empty()) body.compute("zero_gradients", ops::pass(ComputeOp::fill, "zeros"), zero, Phase::optimizer);
}

StepBodies::Made StepBodies::update_copies(const std::vector<ParamRef>& params) {
  const std::int64_t copies = kUpdateCopies(workload_.kernels);
  const Optimizer rule = workload_.training.optimizer;
  if (copies == 0 || plan_.optimizer_on_host || (rule != Optimizer::adam && rule != Optimizer::adamw)) return {-1, -1};
  Tensor t;
  double elements = 0;
  for (const ParamRef& p : params) {
    if (state(p).frozen) continue;
    const int moment = state(p).state.back();
    t.dtype = nth(frame_.program.tensors, moment).dtype;
    elements += elements_here(moment);
  }
  if (elements == 0) return {-1, -1};
  t.name = "update_copies";
  t.shape = {frame_.constant(copies * static_cast<std::int64_t>(elements))};
  t.category = MemoryCategory::workspace;
  BodyBuilder body(frame_, "update.copies", Phase::optimizer);
  ComputeTask made = ops::pass(ComputeOp::fill, "zeros");
  made.passes = made.kernels = 0;
  body.compute("copies", made, {write(body.scratch("copies", frame_.add_tensor(std::move(t))))}, Phase::optimizer);
  return body.finish();
}

StepBodies::Made StepBodies::parameter_update(const std::vector<ParamRef>& params, int base) {
  return cached("update", params, base, &StepBodies::fill_update);
}

}  // namespace rehearse
