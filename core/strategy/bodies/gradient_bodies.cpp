// Bodies that move gradients and parameters between whole and slices: reductions, scatters, gathers.

#include <stdexcept>

#include "core/base/index.hpp"
#include "core/config/setting_key.hpp"
#include "core/strategy/bodies/step_bodies.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

const SettingKey<std::int64_t> kGradientBuffers = declare_key(
    "framework.gradient_buffers", std::int64_t{0}, "Buffers of one bucket each that ZeRO reduces gradients through.",
    {.least = 0,
     .most = 8,
     .detail = "With zero_stage 2 or 3. DeepSpeed's contiguous_gradients: one of strategy.bucket, and a second where "
               "reductions overlap (stages 1 and 2) or copy their input (stage 3).",
     .example = "2"});

const SettingKey<bool> kWholeGradients = declare_key(
    "framework.whole_gradients", false, "Replicas all-reduce whole gradients though they divide the optimizer's state.",
    {.detail = "With zero_stage 1 and dp_shard above 1. Apex's DistributedFusedLAMB, with full_ar: one all-reduce over "
               "all replicas, of which each updates its slice. false: gradients are scattered over dp_shard, and the "
               "slices all-reduced between the groups."});

bool data_axis(Axis a) {
  return a == Axis::dp_replicate || a == Axis::dp_shard || a == Axis::cp || a == Axis::edp || a == Axis::tile_h ||
         a == Axis::tile_w;
}

AxisSet axes_of(const Layout& layout) {
  AxisSet out;
  for (const auto& [axis, l] : layout) out.insert(axis);
  return out;
}

}  // namespace

int StepBodies::gradient_buffers(Bytes bucket, Bytes whole) {
  const auto buffers = static_cast<double>(kGradientBuffers(workload_.kernels));
  if (buffers == 0 || !plan_.shard_gradients) return -1;
  const Bytes beyond = bucket * buffers - min(bucket, whole);
  if (beyond <= Bytes{0}) return -1;
  Tensor t;
  t.name = "gradient_buffers";
  t.dtype = DType::uint8;
  t.shape = {frame_.constant(static_cast<std::int64_t>(beyond.value()))};
  t.lifetime = Lifetime::persistent;
  t.category = MemoryCategory::communication;
  return frame_.add_tensor(std::move(t));
}

AxisSet StepBodies::data_axes(const ParamRef& p) const {
  return partial_axes(nth(frame_.program.tensors, grad_tensor(p)).layout, true);
}

ParamRef StepBodies::owner_of(int tensor, int position) const {
  for (std::size_t b = 0; b < blocks_.size(); ++b)
    for (std::size_t p = 0; p < blocks_[b].param.size(); ++p)
      if (blocks_[b].param[p] == tensor && blocks_[b].shared_with[p] < 0)
        return {position, static_cast<int>(b), static_cast<int>(p)};
  throw std::logic_error("a shared parameter without owner");
}

AxisSet StepBodies::partial_axes(const Layout& layout, bool data) const {
  AxisSet out;
  for (const auto& [axis, l] : layout)
    if (std::holds_alternative<Partial>(l) && data_axis(axis) == data) out.insert(axis);
  return out;
}

CollectiveTask StepBodies::grad_collective(CollectiveOp op, AxisSet axes) {
  CollectiveTask c;
  c.op = op;
  const bool experts = axes.contains(Axis::edp);
  // Between copies of what a group divides.
  const bool copies = op == CollectiveOp::all_reduce &&
                      (plan_.shard_gradients || (!plan_.optimizer.empty() && !axes.contains(Axis::dp_shard)));
  c.group = frame_.group(experts ? "edp" : copies ? "dp_replicate" : "dp", axes);
  ExprId divisor = ExprPool::kOne;
  // Copies of an expert are fewer than replicas, but its gradient holds the tokens of all.
  for (const Axis a : {Axis::dp_replicate, Axis::dp_shard})
    if (axes.contains(a) || experts) divisor = frame_.mul(divisor, frame_.program.exprs.extent(a));
  c.divisor = divisor;
  return c;
}

void StepBodies::fill_reduce(BodyBuilder& body, const std::vector<ParamRef>& params, int base) {
  const AxisSet axes = partial_axes(nth(frame_.program.tensors, grad_tensor(params.front())).layout, true);
  const bool sharded = sharded_optimizer(params.front());
  const AxisSet over = axes_of(optimizer_of(layout_of(params.front())));
  // Groups that divide the state, of which each has all of it.
  const bool groups = sharded && axes.contains(Axis::dp_replicate) && !over.contains(Axis::dp_replicate);
  AxisSet between;
  for (int a = 0; groups && a < kAxisCount; ++a)
    if (const auto axis = static_cast<Axis>(a); axes.contains(axis) && !over.contains(axis)) between.insert(axis);
  const bool whole = groups && kWholeGradients(workload_.kernels);
  std::vector<Operand> operands, slices;
  for (const ParamRef& p : params) {
    const InstanceRef at{p.position - base, 0, 0};
    operands.push_back(update(body.bound("grad", grad_tensor(p), {at, false, false})));
    if (whole) continue;
    operands.push_back(write(body.bound("reduced", state(p).reduced, {at, false, false})));
    slices.push_back(update(operands.back().formal));
  }
  const auto add = [&](const char* name, CollectiveOp op, const AxisSet& ranks, std::vector<Operand> of) {
    body.add({.name = name,
              .kind = grad_collective(op, ranks),
              .operands = std::move(of),
              .stream = frame_.dp,
              .phase = Phase::other,
              .predicate = ExprPool::kOne});
  };
  add("gradients", sharded && !whole ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce,
      groups && !whole ? over : axes, std::move(operands));
  if (groups && !whole) add("gradients.copies", CollectiveOp::all_reduce, between, std::move(slices));
}

StepBodies::Made StepBodies::reduce(const std::vector<ParamRef>& params, int base, bool accumulate) {
  if (!state(params.front()).divided) return cached("gradients.reduce", params, base, &StepBodies::fill_reduce);
  return accumulate ? cached("gradients.accumulate", params, base, &StepBodies::fill_scatter_add)
                    : cached("gradients.scatter", params, base, &StepBodies::fill_scatter);
}

void StepBodies::fill_reduce_tp(BodyBuilder& body, const std::vector<ParamRef>& params, int base) {
  std::vector<Operand> operands;
  for (const ParamRef& p : params)
    operands.push_back(update(body.bound("reduced", state(p).reduced, {{p.position - base, 0, 0}, false, false})));
  CollectiveTask c;
  c.op = CollectiveOp::all_reduce;
  c.group = frame_.group("tp", {Axis::tp});
  Task task{.name = "norm_gradients",
            .kind = c,
            .operands = operands,
            .stream = frame_.tp,
            .phase = Phase::other,
            .predicate = ExprPool::kOne};
  body.add(std::move(task));
}

StepBodies::Made StepBodies::reduce_tp(const std::vector<ParamRef>& params, int base) {
  std::vector<ParamRef> partial;
  for (const ParamRef& p : params)
    if (!partial_axes(nth(frame_.program.tensors, grad_tensor(p)).layout, false).empty()) partial.push_back(p);
  if (partial.empty()) return {-1, -1};
  return cached("norm_gradients.reduce", partial, base, &StepBodies::fill_reduce_tp);
}

void StepBodies::fill_reduce_copies(BodyBuilder& body, const std::vector<ParamRef>& params, int base) {
  std::vector<Operand> operands;
  for (const ParamRef& p : params)
    operands.push_back(update(body.bound("reduced", state(p).reduced, {{p.position - base, 0, 0}, false, false})));
  ExprPool& e = frame_.program.exprs;
  const ExprId stage = e.coord(Axis::pp),
               mirrored = e.apply(ExprOp::sub, e.apply(ExprOp::sub, e.extent(Axis::pp), ExprPool::kOne), stage);
  CollectiveTask c;
  c.op = CollectiveOp::all_reduce;
  c.group = frame_.group("copies", {Axis::pp}, e.apply(ExprOp::min, stage, mirrored));
  body.add({.name = "copies",
            .kind = c,
            .operands = operands,
            .stream = frame_.dp,
            .phase = Phase::other,
            .predicate = ExprPool::kOne});
}

StepBodies::Made StepBodies::reduce_copies(const std::vector<ParamRef>& params, int base) {
  return cached("copies.reduce", params, base, &StepBodies::fill_reduce_copies);
}

void StepBodies::fill_gather(BodyBuilder& body, const std::vector<ParamRef>& params, int base) {
  std::vector<Operand> operands;
  const AxisSet axes = axes_of(optimizer_of(layout_of(params.front())));
  for (const ParamRef& p : params) {
    const InstanceRef at{p.position - base, 0, 0};
    operands.push_back(read(body.bound("updated", state(p).updated, {at, false, false})));
    operands.push_back(write(body.bound("param", param_tensor(p), {at, false, false})));
  }
  CollectiveTask c;
  c.op = CollectiveOp::all_gather;
  c.group = frame_.group(axes.contains(Axis::edp) ? "edp" : "dp", axes);
  if (plan_.lists_of > 0) return gather_lists(body, c, operands);
  body.add({.name = "parameters",
            .kind = c,
            .operands = operands,
            .stream = frame_.dp,
            .phase = Phase::other,
            .predicate = ExprPool::kOne});
}

StepBodies::Made StepBodies::gather(const std::vector<ParamRef>& params, int base) {
  return cached("parameters.gather", params, base, &StepBodies::fill_gather);
}

/// The buffer of a call through a list of tensors.
int StepBodies::flat_like(BodyBuilder& body, int whole) {
  return body.buffer_like(whole, "flat", "flat", MemoryCategory::communication);
}

/// A copy for every rank's piece (torch.distributed all_gather and reduce_scatter with lists). Bytes: beside the copy
/// itself, parameters are set to zero before and their norm is taken after, gradients are divided by the number of
/// ranks (microsoft/DeepSpeed v0.4.0, partition_parameters.py, stage3.py).
void StepBodies::copy_pieces(BodyBuilder& body, const char* name, int from, int to) {
  ComputeTask copy;
  copy.op = ComputeOp::copy;
  copy.kernels = plan_.lists_of;
  copy.passes = 2;
  // In turn with the calls: the device is idle before each.
  body.add({.name = name,
            .kind = copy,
            .operands = {read(from), write(to)},
            .stream = frame_.dp,
            .phase = Phase::other,
            .predicate = ExprPool::kOne});
}

/// One gather of the pairs (slice, whole) in `moved`, into buffers from which the pieces are copied.
void StepBodies::gather_lists(BodyBuilder& body, CollectiveTask gather, std::vector<Operand> moved) {
  gather.packed = true;
  std::vector<std::pair<int, int>> copies;
  for (std::size_t i = 1; i < moved.size(); i += 2) {
    copies.emplace_back(flat_like(body, moved[i].formal), moved[i].formal);
    moved[i] = write(copies.back().first);
  }
  body.add({.name = "parameters",
            .kind = gather,
            .operands = std::move(moved),
            .stream = frame_.dp,
            .phase = Phase::other,
            .predicate = ExprPool::kOne});
  for (const auto& [flat, whole] : copies) copy_pieces(body, "parameters.pieces", flat, whole);
}

void StepBodies::scatter_lists(BodyBuilder& body, const std::vector<Operand>& moved, const AxisSet& over) {
  for (std::size_t i = 0; i < moved.size(); i += 2) {
    const int whole = moved[i].formal, flat = flat_like(body, whole);
    copy_pieces(body, "gradients.pieces", whole, flat);
    body.add({.name = "gradients",
              .kind = grad_collective(CollectiveOp::reduce_scatter, over),
              .operands = {read(flat), moved[i + 1]},
              .stream = frame_.dp,
              .phase = Phase::other,
              .predicate = ExprPool::kOne});
  }
}

/// Whole gradients, a rank's terms of the sum, become the slices it updates; what is still a sum between copies is then
/// all-reduced.
void StepBodies::scatter(BodyBuilder& body, const std::vector<ParamRef>& params, int base, bool add) {
  std::vector<Operand> moved, copies, cast, added;
  const AxisSet over = axes_of(optimizer_of(layout_of(params.front())));
  AxisSet between;
  for (const ParamRef& p : params) {
    const InstanceRef at{p.position - base, 0, 0};
    const Tensor whole = nth(frame_.program.tensors, grad_tensor(p));
    for (const auto& [a, l] : whole.layout)
      if (std::holds_alternative<Partial>(l) && data_axis(a) && !over.contains(a)) between.insert(a);
    int slice = body.bound("slice", state(p).reduced, {at, state(p).passes, false});
    if (add) {
      const int sum = slice;
      slice = body.buffer_like(sum, "received", "received", MemoryCategory::communication);
      added.push_back(read(slice));
      added.push_back(update(sum));
    }
    if (body.tensor(slice).dtype != whole.dtype) {
      cast.push_back(write(slice));
      slice = body.buffer_like(slice, "reduced", "reduced", MemoryCategory::communication, whole.dtype);
      cast.insert(cast.end() - 1, read(slice));
    }
    moved.push_back(read(body.bound("grad", grad_tensor(p), {at, false, true})));
    moved.push_back(write(slice));
    copies.push_back(update(slice));
  }
  if (plan_.lists_of > 0)
    scatter_lists(body, moved, over);
  else {
    body.add({.name = "gradients",
              .kind = grad_collective(CollectiveOp::reduce_scatter, over),
              .operands = moved,
              .stream = frame_.dp,
              .phase = Phase::other,
              .predicate = ExprPool::kOne});
  }
  if (!between.empty()) {
    body.add({.name = "gradients.copies",
              .kind = grad_collective(CollectiveOp::all_reduce, between),
              .operands = copies,
              .stream = frame_.dp_replicate,
              .phase = Phase::other,
              .predicate = ExprPool::kOne});
  }
  if (!cast.empty()) {
    ComputeTask narrow;
    narrow.op = ComputeOp::cast;
    body.add({.name = "to_kept_dtype",
              .kind = narrow,
              .operands = cast,
              .stream = between.empty() ? frame_.dp : frame_.dp_replicate,
              .phase = Phase::optimizer,
              .predicate = ExprPool::kOne});
  }
  if (!add) return;
  ComputeTask sum;
  sum.op = ComputeOp::add;
  sum.accumulates = true;
  body.add({.name = "accumulate",
            .kind = sum,
            .operands = added,
            .stream = frame_.dp_replicate,
            .phase = Phase::optimizer,
            .predicate = ExprPool::kOne});
}

void StepBodies::fill_scatter(BodyBuilder& body, const std::vector<ParamRef>& params, int base) {
  scatter(body, params, base, false);
}
void StepBodies::fill_scatter_add(BodyBuilder& body, const std::vector<ParamRef>& params, int base) {
  scatter(body, params, base, true);
}

/// A copy on the device of a slice that lies in host memory; the slice itself where it doesn't.
int StepBodies::on_device(BodyBuilder& body, int slice) {
  Tensor t = body.tensor(slice);
  if (t.space == MemorySpace::device) return slice;
  t.name += "@device";
  t.space = MemorySpace::device;
  t.lifetime = Lifetime::scratch;
  t.category = MemoryCategory::communication;
  t.per_layer = false;
  t.initial.clear();
  const int out = body.scratch("here", frame_.add_tensor(std::move(t)));
  body.add({.name = "to_device",
            .kind = CopyTask{},
            .operands = {read(slice), write(out)},
            .stream = frame_.copies,
            .phase = Phase::other,
            .predicate = ExprPool::kOne});
  return out;
}

/// Slices are gathered in the model's type; where only the master copy is stored it is cast first. Experts' come from
/// other ranks: a call of their own.
void StepBodies::fill_gather_unit(BodyBuilder& body, const std::vector<ParamRef>& params, int base) {
  std::vector<Operand> cast;
  std::map<bool, std::vector<Operand>> by_view;
  for (const ParamRef& p : params) {
    const InstanceRef at{p.position - base, 0, 0};
    const ParamState& s = state(p);
    int slice = -1;
    if (s.updated >= 0) {
      slice = on_device(body, body.bound("slice", s.updated, {at, false, false}));
    } else {
      const int master = on_device(body, body.bound("master", s.state[0], {at, false, false}));
      Tensor copy = body.tensor(master);
      copy.name += "@model_dtype";
      copy.dtype = nth(frame_.program.tensors, param_tensor(p)).dtype;
      copy.lifetime = Lifetime::scratch;
      copy.category = MemoryCategory::communication;
      copy.per_layer = false;
      copy.initial.clear();
      slice = body.scratch("slice", frame_.add_tensor(std::move(copy)));
      cast.push_back(read(master));
      cast.push_back(write(slice));
    }
    std::vector<Operand>& moved = by_view[in_expert_view(layout_of(p))];
    moved.push_back(read(slice));
    moved.push_back(write(body.bound("whole", param_tensor(p), {at, true, false})));
  }
  if (!cast.empty()) {
    ComputeTask to_model;
    to_model.op = ComputeOp::cast;
    to_model.variant = "from_master";
    body.compute("to_model_dtype", to_model, cast, Phase::other);
  }
  for (const auto& [experts, moved] : by_view) {
    CollectiveTask c;
    c.op = CollectiveOp::all_gather;
    const auto& layout = experts ? plan_.expert_optimizer : plan_.optimizer;
    c.group = frame_.group(experts ? "edp" : "dp", axes_of(layout));
    for (std::size_t i = 0; plan_.lists_of > 0 && i < moved.size(); i += 2)
      gather_lists(body, c, {moved[i], moved[i + 1]});
    if (plan_.lists_of > 0) continue;
    body.add({.name = experts ? "experts.parameters" : "parameters",
              .kind = c,
              .operands = moved,
              .stream = frame_.dp,
              .phase = Phase::other,
              .predicate = ExprPool::kOne});
  }
}

// One of a table of members that fill bodies. NOLINTNEXTLINE(readability-make-member-function-const)
void StepBodies::fill_drop_unit(BodyBuilder& body, const std::vector<ParamRef>& params, int base) {
  for (const ParamRef& p : params) body.bound("whole", param_tensor(p), {{p.position - base, 0, 0}, false, true});
}

StepBodies::Made StepBodies::gather_unit(const std::vector<ParamRef>& params, int base) {
  return cached("unit.gather", params, base, &StepBodies::fill_gather_unit);
}
StepBodies::Made StepBodies::drop_unit(const std::vector<ParamRef>& params, int base) {
  return cached("unit.drop", params, base, &StepBodies::fill_drop_unit);
}

}  // namespace rehearse
