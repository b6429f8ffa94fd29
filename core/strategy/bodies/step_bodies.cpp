#include "core/strategy/bodies/step_bodies.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/config/settings/input.hpp"
#include "core/strategy/operators/ops.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

const SettingKey<bool> kResident = declare_key(
    "input.resident", false, "Samples are in GPU memory already.",
    {.detail = "Nothing is read, decoded or copied, as of a benchmark on made-up data. false: a batch is copied from "
               "host memory at least.",
     .example = "true"});

/// Whether parameter `p` is the table that tokens, or positions, are looked up in.
bool is_embedding(const BlockSpec& spec, std::size_t p) {
  return std::any_of(spec.ops.begin(), spec.ops.end(), [p](const OpSpec& op) {
    return (op.kind == OpKind::embedding || op.kind == OpKind::position_embedding) && !op.params.empty() &&
           op.params[0] == static_cast<int>(p);
  });
}

}  // namespace

StepBodies::StepBodies(ProgramFrame& frame, const Workload& workload, std::vector<BlockTensors>& blocks,
                       const LayoutPlan& plan, int first, int last)
    : frame_(frame), workload_(workload), blocks_(blocks), plan_(plan) {
  make_states(first, last < 0 ? static_cast<int>(blocks.size()) : last);
  Tensor norm;
  norm.name = first == 0 ? "gradient_norm" : "discriminator.gradient_norm";
  norm.lifetime = Lifetime::persistent;
  norm.category = MemoryCategory::workspace;
  norm_ = frame_.add_tensor(std::move(norm));
}

void StepBodies::make_states(int first, int last) {
  for (auto b = static_cast<std::size_t>(first); b < static_cast<std::size_t>(last); ++b) {
    for (std::size_t p = 0; p < blocks_[b].param.size(); ++p) {
      ParamState s;
      const Tensor param = nth(frame_.program.tensors, blocks_[b].param[p]);
      s.frozen = blocks_[b].spec->params[p].frozen;
      const bool divides = !optimizer_of(param.layout).empty();
      s.sharded = divides && plan_.shard_parameters && elements_here(blocks_[b].param[p]) >= plan_.whole_below;
      s.divided = divides && plan_.shard_gradients;
      const bool on_host = plan_.optimizer_on_host;
      // Slices of several microbatches are added up on the device.
      s.passes = plan_.updates_in_backward || plan_.fresh_gradients ||
                 (on_host && s.divided && frame_.program.microbatches == 1);
      // What nobody reduces stays as autograd makes it.
      if (plan_.gradients_as_parameters && !divides && !frame_.mixed)
        nth(frame_.program.tensors, blocks_[b].grad[p]).dtype = param.dtype;
      s.reduced = make_reduced(blocks_[b].grad[p], param, s);
      if (on_host) s.host_gradient = on_host_of(s.reduced);
      make_optimizer_state(s, blocks_[b].spec->params[p], param, is_embedding(*blocks_[b].spec, p));
      Tensor updated = param;
      updated.name += s.sharded ? ".shard" : ".updated";
      updated.layout = state_layout(param);
      if (s.sharded) {
        if (updated.initial_key.empty()) updated.initial_key = param.name;
        if (plan_.parameters_on_host) updated.space = MemorySpace::pinned_host;
        make_transient(blocks_[b].param[p], MemoryCategory::communication);
      } else {
        updated.alias_of = blocks_[b].param[p];
        updated.alias_offset = slice_start(param);
      }
      if (s.frozen || !(s.sharded && plan_.gather_master && frame_.mixed))
        s.updated = frame_.add_tensor(std::move(updated));
      states_.emplace(std::pair(static_cast<int>(b), static_cast<int>(p)), std::move(s));
    }
  }
}

/// Where gradients are stored as slices the reduced one has storage of its own, otherwise it is a view of the whole
/// one.
int StepBodies::make_reduced(int grad, const Tensor& param, const ParamState& state) {
  Tensor reduced = nth(frame_.program.tensors, grad);
  reduced.name += state.divided ? ".shard" : ".reduced";
  reduced.layout = state_layout(param);
  if (state.passes) {
    reduced.lifetime = Lifetime::step;
    reduced.initial.clear();
  }
  if (state.divided) {
    if (plan_.gradients_as_parameters) reduced.dtype = frame_.mixed ? DType::fp32 : param.dtype;
    make_transient(grad, MemoryCategory::communication);
  } else {
    if (state.passes) make_transient(grad, MemoryCategory::gradients);
    reduced.alias_of = grad;
    reduced.alias_offset = slice_start(param);
  }
  return frame_.add_tensor(std::move(reduced));
}

double StepBodies::elements_here(int tensor) const {
  const Program& p = frame_.program;
  return static_cast<double>(p.local_elements(nth(p.tensors, tensor), p.mesh.context(0)));
}

/// First element, of what a rank holds of the parameter, that it updates.
ExprId StepBodies::slice_start(const Tensor& param) {
  ExprPool& e = frame_.program.exprs;
  ExprId n = frame_.local_product(param, 0, static_cast<int>(param.shape.size())), start = ExprPool::kZero;
  for (const auto& [axis, l] : optimizer_of(param.layout)) {
    const ExprId k = e.extent(axis), i = e.coord(axis);
    const ExprId step = e.apply(ExprOp::div, e.apply(ExprOp::sub, e.apply(ExprOp::add, n, k), ExprPool::kOne), k);
    const ExprId first = e.apply(ExprOp::min, n, frame_.mul(i, step));
    start = e.apply(ExprOp::add, start, first);
    n = e.apply(ExprOp::sub, e.apply(ExprOp::min, n, e.apply(ExprOp::add, first, step)), first);
  }
  return start;
}

/// A parameter or gradient that is whole for a part of the step only.
void StepBodies::make_transient(int tensor, MemoryCategory category) {
  Tensor& t = nth(frame_.program.tensors, tensor);
  t.lifetime = Lifetime::step;
  t.category = category;
  t.initial.clear();
}

StepBodies::Made StepBodies::cached(const std::string& kind, const std::vector<ParamRef>& params, int base,
                                    void (StepBodies::*fill)(BodyBuilder&, const std::vector<ParamRef>&, int)) {
  std::string key = kind;
  key.reserve(kind.size() + params.size() * 3 * sizeof(int));
  for (const ParamRef& p : params)
    for (const int part : {p.position - base, p.block, p.param})
      key.append(reinterpret_cast<const char*>(&part), sizeof part);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  BodyBuilder body(frame_, kind, Phase::optimizer);
  (this->*fill)(body, params, base);
  return made_[key] = body.finish();
}

StepBodies::Made StepBodies::input(int block, const std::vector<int>& integer_tensors) {
  BodyBuilder body(frame_, "input", Phase::other);
  const BlockTensors& tensors = nth(blocks_, block);
  for (const int t : integer_tensors) {
    const TensorSpec& spec = nth(tensors.spec->tensors, t);
    bring(body, body.bound(spec.name, nth(tensors.value, t), {{}, true, false}), spec.name, spec.field,
          reads_samples(block, spec.field));
  }
  return body.finish();
}

StepBodies::Made StepBodies::images(int tensor, bool read) {
  BodyBuilder body(frame_, "input", Phase::other);
  bring(body, body.bound("image", tensor, {{}, true, false}), "image", SampleField::image, read);
  return body.finish();
}

ExprId StepBodies::samples_read(const Tensor& host, bool from_storage) const {
  return workload_.input.sample > Bytes{0} && !from_storage ? ExprPool::kZero : frame_.local(host, 0);
}

bool StepBodies::decodes(bool from_storage) const {
  const InputSettings& from = workload_.input;
  return from.sample > Bytes{0} && from.decode_per_core > 0 && from_storage;
}

bool StepBodies::resident() const { return kResident(workload_.input); }

/// One field of the samples: from storage, where they are read from there, decoded, to the device.
void StepBodies::bring(BodyBuilder& body, int device, const std::string& name, SampleField field, bool from_storage) {
  const InputSettings& from = workload_.input;
  const ExprId read_here = resident() ? ExprPool::kZero : samples_read(body.tensor(device), from_storage);
  const InputTask samples{read_here, frame_.program.first_sample, name, field};
  if (resident() || (from.sample > Bytes{0} && from.gpudirect_storage)) {
    body.add({.name = "read",
              .kind = samples,
              .operands = {write(device)},
              .stream = frame_.io,
              .phase = Phase::other,
              .predicate = ExprPool::kOne});
    return;
  }
  Tensor host = body.tensor(device);
  host.name += ".host";
  host.space = MemorySpace::pinned_host;
  host.lifetime = Lifetime::scratch;
  host.per_layer = host.per_microbatch = false;
  const std::string on_host = host.name;
  const int source = body.scratch(on_host, frame_.add_tensor(std::move(host)));
  body.add({.name = "read",
            .kind = samples,
            .operands = {write(source)},
            .stream = frame_.io,
            .phase = Phase::other,
            .predicate = ExprPool::kOne});
  if (decodes(from_storage)) {
    body.add({.name = "decode",
              .kind = HostTask{"data_loader.decode"},
              .operands = {update(source)},
              .stream = frame_.host,
              .phase = Phase::other,
              .predicate = ExprPool::kOne});
  }
  body.add({.name = "to_device",
            .kind = CopyTask{},
            .operands = {read(source), write(device)},
            .stream = frame_.copies,
            .phase = Phase::other,
            .predicate = ExprPool::kOne});
}

StepBodies::Made StepBodies::reduce_tied(const ParamRef& param, int stages) {
  BodyBuilder body(frame_, "tied_embedding.reduce", Phase::optimizer);
  GroupSpec spec;
  spec.name = "embedding";
  spec.axes = {Axis::pp};
  spec.only = {{Axis::pp, {0, stages - 1}}};
  int group = -1;
  for (std::size_t i = 0; i < frame_.program.groups.size(); ++i)
    if (frame_.program.groups[i] == spec) group = static_cast<int>(i);
  if (group < 0) {
    frame_.program.groups.push_back(spec);
    group = static_cast<int>(frame_.program.groups.size()) - 1;
  }
  CollectiveTask c;
  c.op = CollectiveOp::all_reduce;
  c.group = group;
  Task task{.name = "tied_embedding",
            .kind = c,
            .operands = {update(body.bound("reduced", state(param).reduced))},
            .stream = frame_.dp,
            .phase = Phase::other,
            .predicate = ExprPool::kOne};
  body.add(std::move(task));
  return body.finish();
}

AxisSet StepBodies::all_axes(bool stages) const {
  AxisSet out;
  for (int a = 0; a < 7; ++a)
    if (const auto axis = static_cast<Axis>(a);
        frame_.program.mesh.islands().front().extent(axis) > 1 && (stages || axis != Axis::pp))
      out.insert(axis);
  return out;
}

/// Largest values of this step, over the ranks that hold the same layers, become the scales of the next (Transformer
/// Engine's delayed scaling with a history of one step, Megatron's default).
StepBodies::Made StepBodies::update_scales(const std::vector<std::pair<int, int>>& scales) {
  const int base = scales.front().first;
  std::string key = "scales";
  for (const auto& [position, tensor] : scales) key += fmt::format(" {}.{}", position - base, tensor);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  BodyBuilder body(frame_, "fp8_scales", Phase::optimizer);
  std::vector<Operand> operands;
  for (const auto& [position, tensor] : scales)
    operands.push_back(update(body.bound("scales", tensor, {{position - base, 0, 0}, false, false})));
  const AxisSet axes = all_axes(false);
  if (!axes.empty()) {
    CollectiveTask c;
    c.op = CollectiveOp::all_reduce;
    c.reduce = ReduceOp::max;
    c.group = frame_.group("stage", axes);
    body.add({.name = "largest_values",
              .kind = c,
              .operands = operands,
              .stream = frame_.dp,
              .phase = Phase::optimizer,
              .predicate = ExprPool::kOne});
  }
  body.compute("fp8_scales", ops::pass(ComputeOp::quantise, "update_scales"), operands, Phase::optimizer);
  return made_[key] = body.finish();
}

/// Whether a rank adds this gradient to the norm: one of those that hold the same elements does.
ExprId StepBodies::counts_here(const ParamRef& p) {
  ExprPool& e = frame_.program.exprs;
  const Layout& layout = nth(frame_.program.tensors, state(p).reduced).layout;
  ExprId counts = ExprPool::kOne;
  const auto only_first = [&](Axis axis) {
    counts = e.apply(ExprOp::logical_and, counts, e.apply(ExprOp::eq, e.coord(axis), ExprPool::kZero));
  };
  // The two views divide the same ranks: an expert's gradient lies on the axes of its own.
  const bool expert = in_expert_view(layout_of(p));
  for (int a = expert ? 7 : 0; a < (expert ? kAxisCount : 7); ++a) {
    const auto axis = static_cast<Axis>(a);
    if (axis == Axis::pp || frame_.program.mesh.islands().front().extent(axis) == 1) continue;
    if (!std::holds_alternative<Shard>(layout_on(layout, axis))) only_first(axis);
  }
  // The first half of the stages holds every chunk once.
  if (frame_.chunk_copies > 1)
    counts = e.apply(ExprOp::logical_and, counts,
                     e.apply(ExprOp::lt, e.coord(Axis::pp),
                             e.apply(ExprOp::div, e.extent(Axis::pp), e.constant(frame_.chunk_copies))));
  // A tied parameter on a stage of its own is the copy of the first stage's.
  const auto& spec = nth(nth(blocks_, p.block).spec->params, p.param);
  if (!spec.tied_to.empty() && nth(nth(blocks_, p.block).shared_with, p.param) < 0) counts = ExprPool::kZero;
  return counts;
}

void StepBodies::fill_norm(BodyBuilder& body, const std::vector<ParamRef>& params, int base) {
  const int norm = body.bound("norm", norm_);
  std::vector<Operand> operands;
  // Gradients that have left are looked at where they are.
  const bool left = !params.empty() && state(params.front()).passes && plan_.optimizer_on_host;
  for (const ParamRef& p : params)
    operands.push_back(read(body.bound("reduced", left ? state(p).host_gradient : state(p).reduced,
                                       {{p.position - base, 0, 0}, false, false})));
  const auto compute = [&](const char* name, const ComputeTask& work, const std::vector<Operand>& on) {
    if (!left) return (void)body.compute(name, work, on, Phase::optimizer);
    body.add({.name = name,
              .kind = work,
              .operands = on,
              .stream = frame_.host,
              .phase = Phase::optimizer,
              .predicate = ExprPool::kOne});
  };
  if (workload_.training.precision == Precision::fp16_mixed) {
    // Loss scaling: gradients are divided by the scale and checked for overflow before anything reads them.
    std::vector<Operand> scaled;
    for (const Operand& o : operands) scaled.push_back(update(o.formal));
    ComputeTask unscale = ops::pass(ComputeOp::scale, "unscale");
    unscale.scalars = {1.0};
    compute("unscale", unscale, scaled);
  }
  operands.push_back(write(norm));
  if (workload_.training.clip_gradients) {
    ComputeTask squares = ops::pass(ComputeOp::square_sum, "l2");
    for (const ParamRef& p : params) squares.offsets.push_back(counts_here(p));
    compute("square_sum", squares, operands);
  }
  CollectiveTask c;
  c.op = CollectiveOp::all_reduce;
  const AxisSet world = all_axes(true);
  if (world.empty() || plan_.central_update) return;
  c.group = frame_.group("world", world);
  Task task{.name = "gradient_norm",
            .kind = c,
            .operands = {update(norm)},
            .stream = frame_.dp,
            .phase = Phase::optimizer,
            .predicate = ExprPool::kOne};
  body.add(std::move(task));
}

StepBodies::Made StepBodies::gradient_norm(const std::vector<ParamRef>& params, int base) {
  return cached("gradient_norm", params, base, &StepBodies::fill_norm);
}

}  // namespace rehearse
