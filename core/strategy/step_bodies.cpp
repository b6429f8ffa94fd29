#include "core/strategy/step_bodies.hpp"

#include <fmt/format.h>

namespace rehearse {

namespace {

Layout merged(const Layout& base, const Layout& extra) {
  Layout out = base;
  out.insert(out.end(), extra.begin(), extra.end());
  return out;
}

// Constants of the updates that no setting changes: PyTorch's defaults for Adam, the usual momentum and norm.
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kAdamEpsilon = 1e-8, kMomentum = 0.9, kMaxNorm = 1.0;

ComputeTask element_wise(ComputeOp op, const char* variant, DType arithmetic = DType::fp32) {
  ComputeTask t;
  t.op = op;
  t.variant = variant;
  t.arithmetic = arithmetic;
  return t;
}

}  // namespace

StepBodies::StepBodies(ProgramFrame& frame, const Workload& workload, std::vector<BlockTensors>& blocks, const LayoutPlan& plan)
    : frame_(frame), workload_(workload), blocks_(blocks), plan_(plan) {
  make_states();
  Tensor norm;
  norm.name = "gradient_norm";
  norm.lifetime = Lifetime::persistent;
  norm.category = MemoryCategory::workspace;
  norm_ = frame_.add_tensor(std::move(norm));
}

void StepBodies::make_states() {
  const bool adam = workload_.training.optimizer != Optimizer::sgd;
  for (std::size_t b = 0; b < blocks_.size(); ++b)
    for (std::size_t p = 0; p < blocks_[b].param.size(); ++p) {
      ParamState s;
      const Tensor param = frame_.program.tensors[static_cast<std::size_t>(blocks_[b].param[p])];
      s.sharded = plan_.shard_parameters && static_cast<double>(blocks_[b].spec->params[p].elements()) >= plan_.whole_below;
      s.reduced = make_reduced(blocks_[b].grad[p], param);
      const bool on_host = plan_.optimizer_on_host;
      if (on_host) s.host_gradient = on_host_of(s.reduced);
      Tensor state = param;
      if (on_host) state.space = MemorySpace::host;
      state.layout = merged(param.layout, optimizer_of(param.layout));
      state.dtype = DType::fp32;
      state.category = MemoryCategory::optimizer;
      std::vector<std::string> names;
      if (frame_.mixed) names.emplace_back(".master");
      names.emplace_back(adam ? ".exp_avg" : ".momentum");
      if (adam) names.emplace_back(".exp_avg_sq");
      for (const std::string& name : names) {
        Tensor t = state;
        if (t.initial_key.empty()) t.initial_key = t.name;
        t.name += name;
        if (name != ".master") t.initial = "zeros";
        s.state.push_back(frame_.add_tensor(std::move(t)));
      }
      Tensor updated = param;
      updated.name += s.sharded ? ".shard" : ".updated";
      updated.layout = merged(param.layout, optimizer_of(param.layout));
      if (s.sharded) {
        if (updated.initial_key.empty()) updated.initial_key = param.name;
        make_transient(blocks_[b].param[p]);
      } else {
        updated.alias_of = blocks_[b].param[p];
        updated.alias_offset = slice_start(param);
      }
      if (!(s.sharded && plan_.gather_master && frame_.mixed)) s.updated = frame_.add_tensor(std::move(updated));
      states_.emplace(std::pair(static_cast<int>(b), static_cast<int>(p)), std::move(s));
    }
}

/// Where gradients are stored as slices the reduced one has storage of its own, otherwise it is a view of the whole one.
int StepBodies::make_reduced(int grad, const Tensor& param) {
  Tensor reduced = frame_.program.tensors[static_cast<std::size_t>(grad)];
  reduced.name += plan_.shard_gradients ? ".shard" : ".reduced";
  reduced.layout = merged(param.layout, optimizer_of(param.layout));
  if (plan_.shard_gradients) {
    make_transient(grad);
  } else {
    reduced.alias_of = grad;
    reduced.alias_offset = slice_start(param);
  }
  return frame_.add_tensor(std::move(reduced));
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
void StepBodies::make_transient(int tensor) {
  Tensor& t = frame_.program.tensors[static_cast<std::size_t>(tensor)];
  t.lifetime = Lifetime::step;
  t.category = MemoryCategory::communication;
  t.initial.clear();
}

StepBodies::Made StepBodies::cached(const std::string& kind, const std::vector<ParamRef>& params, int base,
                                    void (StepBodies::*fill)(BodyBuilder&, const std::vector<ParamRef>&, int)) {
  std::string key = kind;
  for (const ParamRef& p : params) key += fmt::format(" {}.{}.{}", p.position - base, p.block, p.param);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  BodyBuilder body(frame_, kind, Phase::optimizer);
  (this->*fill)(body, params, base);
  return made_[key] = body.finish();
}

StepBodies::Made StepBodies::input(int block, const std::vector<int>& integer_tensors) {
  BodyBuilder body(frame_, "input", Phase::other);
  const BlockTensors& tensors = blocks_[static_cast<std::size_t>(block)];
  for (const int t : integer_tensors) {
    const int id = tensors.value[static_cast<std::size_t>(t)];
    const int device = body.bound(tensors.spec->tensors[static_cast<std::size_t>(t)].name, id, {{}, true, false});
    const InputSettings& from = workload_.input;
    // Labels come with the samples they belong to.
    const bool with_samples = from.sample > Bytes{0} && block != 0;
    const ExprId samples = with_samples ? ExprPool::kZero : frame_.local(body.tensor(device), 0);
    if (from.sample > Bytes{0} && from.gpudirect_storage) {
      body.add({.name = "read", .kind = InputTask{samples, frame_.program.first_sample, tensors.spec->tensors[static_cast<std::size_t>(t)].name}, .operands = {write(device)}, .stream = frame_.io, .phase = Phase::other, .predicate = ExprPool::kOne});
      continue;
    }
    Tensor host = frame_.program.tensors[static_cast<std::size_t>(id)];
    host.name += ".host";
    host.space = MemorySpace::pinned_host;
    host.lifetime = Lifetime::scratch;
    host.per_layer = host.per_microbatch = false;
    const int source = body.scratch(host.name, frame_.add_tensor(std::move(host)));
    Task read_task{.name = "read", .kind = InputTask{samples, frame_.program.first_sample, tensors.spec->tensors[static_cast<std::size_t>(t)].name}, .operands = {write(source)}, .stream = frame_.io, .phase = Phase::other, .predicate = ExprPool::kOne};
    body.add(std::move(read_task));
    if (from.sample > Bytes{0} && from.decode_per_core > 0 && !with_samples)
      body.add({.name = "decode", .kind = HostTask{"data_loader.decode"}, .operands = {update(source)}, .stream = frame_.host, .phase = Phase::other, .predicate = ExprPool::kOne});
    Task copy{.name = "to_device", .kind = CopyTask{}, .operands = {read(source), write(device)}, .stream = frame_.copies, .phase = Phase::other, .predicate = ExprPool::kOne};
    body.add(std::move(copy));
  }
  return body.finish();
}

namespace {

std::string message_key(const std::string& name, const StepBodies::Passing& what, ExprId peer, bool scatter, StreamId stream) {
  std::string key = fmt::format("{} {} {} {} {}", name, what.edge, peer.index, scatter, stream);
  for (const auto& s : what.skips) key += fmt::format(" {}.{}.{}", s.tensor, s.delta, s.release);
  return key;
}

/// Halos stay where they are: neighbours of the receiving stage fill their own.
int own_part(BodyBuilder& body, int formal) {
  const Tensor& whole = body.tensor(formal);
  if (without_halos(whole.layout) == whole.layout) return formal;
  Tensor own = whole;
  own.name += "@own";
  own.layout = without_halos(own.layout);
  own.alias_of = body.tensor_id(formal);
  own.lifetime = Lifetime::scratch;
  own.per_layer = own.per_microbatch = false;
  const std::string name = own.name;
  return body.scratch(name, body.frame().add_tensor(std::move(own)));
}

}  // namespace

StepBodies::Made StepBodies::send(bool forward, const Passing& what, ExprId peer, bool scatter, StreamId stream) {
  const std::string name = forward ? "send.activations" : "send.gradients";
  const std::string key = message_key(name, what, peer, scatter, stream);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  BodyBuilder body(frame_, name, Phase::other);
  const ProgramFrame::Edge& edge = frame_.edges[static_cast<std::size_t>(what.edge)];
  int message = body.bound("message", forward ? edge.value : edge.grad, {{}, false, true});
  std::vector<Operand> operands;
  for (const Passing::Carried& s : what.skips) operands.push_back(read(own_part(body, body.bound("skip", s.tensor, {{s.delta, 0, 0}, false, s.release}))));
  if (scatter) {
    message = body.redistribute(message, with_axis(body.tensor(message).layout, Axis::tp, shard_flat()), name, Phase::other);
  }
  operands.insert(operands.begin(), read(own_part(body, message)));
  P2pTask p2p;
  p2p.direction = P2pTask::Direction::send;
  p2p.group = frame_.group(forward ? "pp.forward" : "pp.backward", {Axis::pp});
  p2p.peer = peer;
  p2p.edge = 2 * what.edge + (forward ? 0 : 1);
  Task task{.name = name, .kind = p2p, .operands = std::move(operands), .stream = stream, .phase = Phase::other, .predicate = ExprPool::kOne};
  body.add(std::move(task));
  return made_[key] = body.finish();
}

StepBodies::Made StepBodies::receive(bool forward, const Passing& what, ExprId peer, bool scatter, StreamId stream) {
  const std::string name = forward ? "receive.activations" : "receive.gradients";
  const std::string key = message_key(name, what, peer, scatter, stream);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  BodyBuilder body(frame_, name, Phase::other);
  const ProgramFrame::Edge& edge = frame_.edges[static_cast<std::size_t>(what.edge)];
  const int target = body.bound("message", forward ? edge.value : edge.grad, {{}, true, false});
  int message = own_part(body, target);
  std::vector<Operand> operands;
  for (const Passing::Carried& s : what.skips) operands.push_back(write(own_part(body, body.bound("skip", s.tensor, {{s.delta, 0, 0}, true, false}))));
  if (scatter) {
    Tensor slice = body.tensor(target);
    slice.name += "@scattered";
    slice.layout = with_axis(slice.layout, Axis::tp, shard_flat());
    slice.lifetime = Lifetime::scratch;
    slice.per_layer = slice.per_microbatch = false;
    slice.category = MemoryCategory::communication;
    message = body.scratch("message.slice", frame_.add_tensor(std::move(slice)));
  }
  P2pTask p2p;
  p2p.direction = P2pTask::Direction::receive;
  p2p.group = frame_.group(forward ? "pp.forward" : "pp.backward", {Axis::pp});
  p2p.peer = peer;
  operands.insert(operands.begin(), write(message));
  p2p.edge = 2 * what.edge + (forward ? 0 : 1);
  p2p.chunk_delta = forward ? -1 : 1;
  Task task{.name = name, .kind = p2p, .operands = std::move(operands), .stream = stream, .phase = Phase::other, .predicate = ExprPool::kOne};
  body.add(std::move(task));
  if (scatter) {
    CollectiveTask c;
    c.op = CollectiveOp::all_gather;
    c.group = frame_.group("tp", {Axis::tp});
    Task gather{.name = name + ".all_gather", .kind = c, .operands = {read(message), write(target)}, .stream = frame_.tp, .phase = Phase::other, .predicate = ExprPool::kOne};
    body.add(std::move(gather));
  }
  return made_[key] = body.finish();
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
  Task task{.name = "tied_embedding", .kind = c, .operands = {update(body.bound("reduced", state(param).reduced))}, .stream = frame_.dp, .phase = Phase::other, .predicate = ExprPool::kOne};
  body.add(std::move(task));
  return body.finish();
}

/// Whether a rank adds this gradient to the norm: one of those that hold the same elements does.
ExprId StepBodies::counts_here(const ParamRef& p) {
  ExprPool& e = frame_.program.exprs;
  const Layout& layout = frame_.program.tensors[static_cast<std::size_t>(state(p).reduced)].layout;
  ExprId counts = ExprPool::kOne;
  const auto only_first = [&](Axis axis) { counts = e.apply(ExprOp::logical_and, counts, e.apply(ExprOp::eq, e.coord(axis), ExprPool::kZero)); };
  // The two views divide the same ranks: an expert's gradient lies on the axes of its own.
  const bool expert = in_expert_view(layout_of(p));
  for (int a = expert ? 7 : 0; a < (expert ? kAxisCount : 7); ++a) {
    const auto axis = static_cast<Axis>(a);
    if (axis == Axis::pp || frame_.program.mesh.islands().front().extent(axis) == 1) continue;
    if (!std::holds_alternative<Shard>(layout_on(layout, axis))) only_first(axis);
  }
  // The first half of the stages holds every chunk once.
  if (frame_.chunk_copies > 1) counts = e.apply(ExprOp::logical_and, counts, e.apply(ExprOp::lt, e.coord(Axis::pp), e.apply(ExprOp::div, e.extent(Axis::pp), e.constant(frame_.chunk_copies))));
  // A tied parameter on a stage of its own is the copy of the first stage's.
  const auto& spec = blocks_[static_cast<std::size_t>(p.block)].spec->params[static_cast<std::size_t>(p.param)];
  if (!spec.tied_to.empty() && blocks_[static_cast<std::size_t>(p.block)].shared_with[static_cast<std::size_t>(p.param)] < 0) counts = ExprPool::kZero;
  return counts;
}

void StepBodies::fill_norm(BodyBuilder& body, const std::vector<ParamRef>& params, int base) {
  const int norm = body.bound("norm", norm_);
  std::vector<Operand> operands;
  for (const ParamRef& p : params) operands.push_back(read(body.bound("reduced", state(p).reduced, {{p.position - base, 0, 0}, false, false})));
  if (workload_.training.precision == Precision::fp16_mixed) {
    // Loss scaling: gradients are divided by the scale and checked for overflow before anything reads them.
    std::vector<Operand> scaled;
    for (const Operand& o : operands) scaled.push_back(update(o.formal));
    ComputeTask unscale = element_wise(ComputeOp::scale, "unscale");
    unscale.scalars = {1.0};
    body.compute("unscale", unscale, scaled, Phase::optimizer);
  }
  operands.push_back(write(norm));
  if (workload_.training.clip_gradients) {
    ComputeTask squares = element_wise(ComputeOp::square_sum, "l2");
    for (const ParamRef& p : params) squares.offsets.push_back(counts_here(p));
    body.compute("square_sum", squares, operands, Phase::optimizer);
  }
  CollectiveTask c;
  c.op = CollectiveOp::all_reduce;
  AxisSet world;
  for (int a = 0; a < 7; ++a)
    if (frame_.program.mesh.islands().front().extent(static_cast<Axis>(a)) > 1) world.insert(static_cast<Axis>(a));
  if (world.empty() || plan_.central_update) return;
  c.group = frame_.group("world", world);
  Task task{.name = "gradient_norm", .kind = c, .operands = {update(norm)}, .stream = frame_.dp, .phase = Phase::optimizer, .predicate = ExprPool::kOne};
  body.add(std::move(task));
}

StepBodies::Made StepBodies::gradient_norm(const std::vector<ParamRef>& params, int base) { return cached("gradient_norm", params, base, &StepBodies::fill_norm); }

ComputeTask StepBodies::optimizer_task() const {
  const Optimizer kind = workload_.training.optimizer;
  ComputeTask step = element_wise(ComputeOp::optimizer, kind == Optimizer::sgd ? "sgd" : kind == Optimizer::adam ? "adam" : "adamw");
  const TrainingSettings& t = workload_.training;
  if (kind == Optimizer::sgd) step.scalars = {t.learning_rate, t.weight_decay, kMomentum};
  else step.scalars = {t.learning_rate, t.weight_decay, kBeta1, kBeta2, kAdamEpsilon};
  return step;
}

/// A copy of a persistent tensor in host memory.
int StepBodies::on_host_of(int tensor) {
  Tensor t = frame_.program.tensors[static_cast<std::size_t>(tensor)];
  t.name += ".host";
  t.space = MemorySpace::host;
  t.alias_of = -1;
  t.lifetime = Lifetime::persistent;
  t.category = MemoryCategory::gradients;
  return frame_.add_tensor(std::move(t));
}

/// The update runs on CPU cores, parameter by parameter; each goes back to the device while the next is updated (Ren et al. 2021, sec. 4).
void StepBodies::update_on_host(BodyBuilder& body, const ParamRef& p, const InstanceRef& at) {
  const ParamState& s = state(p);
  std::vector<Operand> operands{read(body.bound("gradient", s.host_gradient, {at, false, false}))};
  for (const int t : s.state) operands.push_back(update(body.bound("state", t, {at, false, false})));
  Tensor staged = frame_.program.tensors[static_cast<std::size_t>(s.updated)];
  staged.name += ".staged";
  staged.space = MemorySpace::pinned_host;
  staged.lifetime = Lifetime::scratch;
  staged.alias_of = -1;
  staged.per_layer = false;
  staged.initial.clear();
  const int out = body.scratch("staged", frame_.add_tensor(std::move(staged)));
  operands.push_back(write(out));
  body.add({.name = "update", .kind = optimizer_task(), .operands = operands, .stream = frame_.host, .phase = Phase::optimizer, .predicate = ExprPool::kOne});
  body.add({.name = "to_device", .kind = CopyTask{}, .operands = {read(out), write(body.bound("updated", s.updated, {at, false, false}))}, .stream = frame_.copies, .phase = Phase::other, .predicate = ExprPool::kOne});
}

void StepBodies::fill_to_host(BodyBuilder& body, const std::vector<ParamRef>& params, int base) {
  std::vector<Operand> operands;
  for (const ParamRef& p : params) {
    const InstanceRef at{p.position - base, 0, 0};
    operands.push_back(read(body.bound("reduced", state(p).reduced, {at, false, false})));
    operands.push_back(write(body.bound("host", state(p).host_gradient, {at, false, false})));
  }
  body.add({.name = "to_host", .kind = CopyTask{}, .operands = operands, .stream = frame_.copies_out, .phase = Phase::other, .predicate = ExprPool::kOne});
}

StepBodies::Made StepBodies::to_host(const std::vector<ParamRef>& params, int base) { return cached("gradients.to_host", params, base, &StepBodies::fill_to_host); }

void StepBodies::fill_update(BodyBuilder& body, const std::vector<ParamRef>& params, int base) {
  std::vector<Operand> clip, adam, copy, zero;
  for (const ParamRef& p : params) {
    const InstanceRef at{p.position - base, 0, 0};
    const ParamState& s = state(p);
    if (s.host_gradient >= 0) {
      update_on_host(body, p, at);
      if (!plan_.shard_gradients) zero.push_back(write(body.bound("grad", grad_tensor(p), {at, false, false})));
      continue;
    }
    const int reduced = body.bound("reduced", s.reduced, {at, false, false});
    clip.push_back(update(reduced));
    adam.push_back(read(reduced));
    if (s.updated >= 0) {
      const int param = body.bound("updated", s.updated, {at, false, false});
      if (!frame_.mixed) adam.push_back(update(param));  // Weights first: the model's own, or the master copy.
      copy.push_back(write(param));
      if (frame_.mixed) copy.push_back(read(body.bound("state", s.state[0], {at, false, false})));
    }
    for (const int t : s.state) adam.push_back(update(body.bound("state", t, {at, false, false})));
    // Slices are overwritten by the next step's first reduction.
    if (!plan_.shard_gradients) zero.push_back(write(body.bound("grad", grad_tensor(p), {at, false, false})));
  }
  if (workload_.training.clip_gradients && !clip.empty()) {
    clip.push_back(read(body.bound("norm", norm_)));
    ComputeTask scale = element_wise(ComputeOp::scale, "clip");
    scale.scalars = {kMaxNorm};
    body.compute("clip", scale, clip, Phase::optimizer);
  }
  if (!adam.empty()) body.compute("update", optimizer_task(), adam, Phase::optimizer);
  if (frame_.mixed && !copy.empty()) body.compute("to_model_dtype", element_wise(ComputeOp::cast, "from_master"), copy, Phase::optimizer);
  if (!zero.empty()) body.compute("zero_gradients", element_wise(ComputeOp::fill, "zeros"), zero, Phase::optimizer);
}

StepBodies::Made StepBodies::parameter_update(const std::vector<ParamRef>& params, int base) { return cached("update", params, base, &StepBodies::fill_update); }

}  // namespace rehearse
