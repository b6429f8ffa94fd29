#include "core/strategy/bodies/body_builder.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/base/stop.hpp"
#include "core/program/body.hpp"

namespace rehearse {

int ProgramFrame::group(const std::string& name, AxisSet axes, ExprId color) {
  GroupSpec spec;
  spec.name = name;
  spec.axes = axes;
  spec.color = color;
  if (axes.contains(Axis::etp) || axes.contains(Axis::ep) || axes.contains(Axis::edp)) spec.view = View::expert;
  for (std::size_t i = 0; i < program.groups.size(); ++i)
    if (program.groups[i] == spec) return static_cast<int>(i);
  program.groups.push_back(std::move(spec));
  return static_cast<int>(program.groups.size()) - 1;
}

int ProgramFrame::add_tensor(Tensor tensor) {
  program.tensors.push_back(std::move(tensor));
  return static_cast<int>(program.tensors.size()) - 1;
}

StreamId ProgramFrame::stream_of(Axis axis) const {
  switch (axis) {
    case Axis::tp:
    case Axis::etp: return tp;
    case Axis::cp: return cp;
    case Axis::ep: return ep;
    case Axis::tile_h:
    case Axis::tile_w: return tile;
    default: return dp;
  }
}

ExprId ProgramFrame::local(const Tensor& tensor, int dim) {
  ExprPool& e = program.exprs;
  ExprId n = tensor.shape.at(static_cast<std::size_t>(dim));
  for (const auto& [axis, l] : tensor.layout) {
    const auto* shard = std::get_if<Shard>(&l);
    const auto* halo = std::get_if<Halo>(&l);
    const bool slices = shard != nullptr ? !shard->flat && shard->dim == dim : halo != nullptr && halo->dim == dim;
    if (!slices) continue;
    const bool uneven_blocks =
        shard != nullptr && shard->zigzag &&
        !(e.is_constant(n) && e.nodes()[n.index].value % (2L * program.mesh.islands().front().extent(axis)) == 0);
    if (shard != nullptr && (!shard->parts.empty() || uneven_blocks))
      throw std::logic_error("uneven shards have no size expression yet: bind parts per island");
    const int k = program.mesh.islands().front().extent(axis);
    const bool one_island = program.mesh.islands().size() == 1;
    if (one_island && e.is_constant(n) && e.nodes()[n.index].value % k == 0) {
      n = e.constant(e.nodes()[n.index].value / k);
      continue;
    }
    const ExprId parts = e.extent(axis), i = e.coord(axis);
    const ExprId step =
        e.apply(ExprOp::div, e.apply(ExprOp::sub, e.apply(ExprOp::add, n, parts), ExprPool::kOne), parts);
    if (shard != nullptr && shard->padded) {
      n = one_island && e.is_constant(n) ? e.constant((e.nodes()[n.index].value + k - 1) / k) : step;
      continue;
    }
    const ExprId end = e.apply(ExprOp::min, n, e.apply(ExprOp::mul, e.apply(ExprOp::add, i, ExprPool::kOne), step));
    n = e.apply(ExprOp::max, ExprPool::kZero, e.apply(ExprOp::sub, end, e.apply(ExprOp::mul, i, step)));
  }
  return n;
}

ExprId ProgramFrame::local_product(const Tensor& tensor, int first, int last) {
  ExprId n = ExprPool::kOne;
  for (int d = first; d < last; ++d) n = mul(n, local(tensor, d));
  return n;
}

BodyBuilder::BodyBuilder(ProgramFrame& frame, std::string name, Phase phase)
    : frame_(frame), body_(std::make_unique<Body>()) {
  body_->name = std::move(name);
  body_->phase = phase;
}

BodyBuilder::~BodyBuilder() = default;

const Tensor& BodyBuilder::tensor(int formal) const { return nth(frame_.program.tensors, tensor_id(formal)); }

bool BodyBuilder::is_scratch(int formal) const {
  return !nth(body_->formals, formal).bound && tensor(formal).alias_of < 0;
}

int BodyBuilder::tensor_id(int formal) const { return nth(body_->formals, formal).like; }

int BodyBuilder::scratch(const std::string& name, int tensor) {
  body_->formals.push_back({name, tensor});
  uses_.emplace_back();
  return static_cast<int>(body_->formals.size()) - 1;
}

int BodyBuilder::view(const std::string& name, int base, int tensor) {
  const int formal = scratch(name, tensor);
  uses_.back().writer = nth(uses_, base).writer;
  return formal;
}

int BodyBuilder::bound(const std::string& name, int tensor, const Hold& hold) {
  const auto key = std::pair(
      tensor, std::array{hold.instance.layer_delta, hold.instance.chunk_delta, hold.instance.microbatch_delta});
  if (const auto at = bound_.find(key); at != bound_.end()) {
    Binding& b = bindings_[binding_of_.at(at->second)];
    b.allocate |= hold.allocate;
    b.release |= hold.release;
    return at->second;
  }
  const int formal = scratch(name, tensor);
  bound_.emplace(key, formal);
  binding_of_.emplace(formal, bindings_.size());
  bindings_.push_back({tensor, hold.instance, hold.allocate, hold.release});
  body_->formals.back().bound = true;
  return formal;
}

void BodyBuilder::rebind(int formal, int tensor, const Hold& hold) {
  Formal& f = nth(body_->formals, formal);
  if (f.bound) return;
  f.bound = true;
  f.like = tensor;
  // Bindings stand in formal order.
  std::size_t before = 0;
  for (int i = 0; i < formal; ++i) before += nth(body_->formals, i).bound;
  for (auto& [other, index] : binding_of_)
    if (index >= before) ++index;
  bindings_.insert(bindings_.begin() + static_cast<std::ptrdiff_t>(before),
                   Binding{tensor, hold.instance, hold.allocate, hold.release});
  binding_of_.emplace(formal, before);
}

void BodyBuilder::depend(int from, int to) {
  if (from < 0 || from == to) return;
  if (nth(body_->graph, from).stream == nth(body_->graph, to).stream) return;
  if (!body_->graph.has_edge(static_cast<std::size_t>(from), static_cast<std::size_t>(to)))
    body_->graph.add_edge(static_cast<std::size_t>(from), static_cast<std::size_t>(to));
}

int BodyBuilder::add(Task task) {
  const std::vector<Operand> operands = task.operands;
  const int v = static_cast<int>(body_->graph.add(std::move(task)));
  for (const Operand& o : operands) depend(nth(uses_, o.formal).writer, v);
  for (const Operand& o : operands)
    if (o.access != Access::read)
      for (const int r : nth(uses_, o.formal).readers) depend(r, v);
  for (const Operand& o : operands) {
    Use& use = nth(uses_, o.formal);
    if (o.access == Access::read) {
      use.readers.push_back(v);
    } else {
      use.writer = v;
      use.readers.clear();
    }
  }
  return v;
}

int BodyBuilder::compute(const std::string& name, ComputeTask work, std::vector<Operand> operands, Phase phase) {
  Task task;
  task.name = name;
  task.kind = std::move(work);
  task.operands = std::move(operands);
  task.stream = frame_.compute;
  task.phase = phase;
  return add(std::move(task));
}

namespace {

/// Pieces of a sequence come from the wire, and go to it, rank by rank: where samples come first, those of several
/// samples are put in order by a pass of their own (torch.distributed._functional_collectives: a gather or scatter
/// along any dimension but the first is followed or preceded by a concatenation; pytorch/torchtitan @9dec370,
/// parallelize_llama.py, notes what folding both dimensions would save).
bool reorders(BodyBuilder& body, int formal, Axis axis) {
  Program& p = body.frame().program;
  if (axis != Axis::tp || !body.frame().samples_first) return false;
  const Tensor t = body.tensor(formal);
  if (t.shape.size() < 3) return false;
  const ExprId samples = body.frame().local(t, 0);
  return p.exprs.is_constant(samples) && p.exprs.evaluate(samples, {}) > 1;
}

int reordered(BodyBuilder& body, int formal, const std::string& name, Phase phase) {
  Tensor whole = body.tensor(formal);
  whole.name += ".ordered";
  whole.alias_of = -1;
  const std::string made = whole.name;
  const int out = body.scratch(made, body.frame().add_tensor(std::move(whole)));
  ComputeTask copy;
  copy.op = ComputeOp::copy;
  body.compute(name + ".reorder", copy, {read(formal), write(out)}, phase);
  return out;
}

}  // namespace

int BodyBuilder::buffer_like(int formal, const std::string& name, const std::string& suffix, MemoryCategory category,
                             std::optional<DType> dtype) {
  Tensor made = tensor(formal);
  made.dtype = dtype.value_or(made.dtype);
  made.name += "@" + suffix;
  made.lifetime = Lifetime::scratch;
  made.category = category;
  made.role = TensorRole::general;
  made.per_layer = false;
  made.initial.clear();
  made.initial_key.clear();
  return scratch(name, frame_.add_tensor(std::move(made)));
}

int BodyBuilder::in_order_of_ranks(int formal, Axis axis, const std::string& name, Phase phase) {
  return reorders(*this, formal, axis) ? reordered(*this, formal, name, phase) : formal;
}

int BodyBuilder::redistribute(int formal, const Layout& to, const std::string& name, Phase phase) {
  const std::vector<LayoutStep> steps = redistribution(tensor(formal).layout, to);
  int current = formal;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const LayoutStep& step = steps[i];
    const bool scatters = step.op == CollectiveOp::reduce_scatter, gathers = step.op == CollectiveOp::all_gather;
    if (scatters) current = in_order_of_ranks(current, step.axis, name, phase);
    Tensor result = tensor(current);
    result.layout = i + 1 == steps.size() ? to : with_axis(result.layout, step.axis, layout_on(to, step.axis));
    result.lifetime = Lifetime::scratch;
    result.role = TensorRole::general;
    result.per_layer = result.per_chunk = result.per_microbatch = false;
    result.name = fmt::format("{}@{}", result.name.substr(0, result.name.find('@')), to_string(result.layout));
    const bool in_place = step.op == CollectiveOp::all_reduce;
    result.alias_of = in_place ? nth(body_->formals, current).like : -1;
    const std::string result_name = result.name;
    const int next = scratch(result_name, frame_.add_tensor(std::move(result)));
    Task task;
    task.phase = phase;
    if (step.op) {
      CollectiveTask c;
      c.op = *step.op;
      c.reduce = step.reduce;
      c.group = frame_.group(std::string(name_of(step.axis)), {step.axis});
      task.name = fmt::format("{}.{}", name, name_of(c.op));
      task.kind = c;
      task.stream = frame_.stream_of(step.axis);
    } else {
      ComputeTask slice;
      slice.op = ComputeOp::copy;
      task.name = name + ".slice";
      task.kind = slice;
      task.stream = frame_.compute;
    }
    task.operands = in_place ? std::vector<Operand>{update(current), write(next)}
                             : std::vector<Operand>{read(current), write(next)};
    add(std::move(task));
    current = gathers && reorders(*this, next, step.axis) ? reordered(*this, next, name, phase) : next;
  }
  return current;
}

BodyBuilder::Finished BodyBuilder::finish() {
  check_stop();
  Program& p = frame_.program;
  p.bodies.push_back(std::move(*body_));
  const auto same = std::find(p.binding_sets.begin(), p.binding_sets.end(), bindings_);
  const int set = static_cast<int>(same - p.binding_sets.begin());
  if (same == p.binding_sets.end()) p.binding_sets.push_back(std::move(bindings_));
  return {static_cast<int>(p.bodies.size()) - 1, set};
}

}  // namespace rehearse
