#include "core/strategy/bodies/block_lowering.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/strategy/bodies/recompute.hpp"
#include "core/strategy/operators/fp8.hpp"

namespace rehearse {

BlockBody::BlockBody(ProgramFrame& frame, BlockTensors& tensors, const BlockOptions& options, const std::string& name,
                     Phase phase)
    : builder_(frame, name, phase),
      tensors_(tensors),
      options_(options),
      phase_(phase),
      backward_body_(phase != Phase::forward) {}

int BlockBody::value(int t) {
  if (const auto at = values_.find(t); at != values_.end()) return at->second;
  const BlockSpec& spec = *tensors_.spec;
  const auto i = static_cast<std::size_t>(t);
  const std::string& name = spec.tensors[i].name;
  int formal = -1;
  if (const auto skip = tensors_.skips_in.find(t); skip != tensors_.skips_in.end()) {
    const BlockTensors::Skip& s = skip->second;
    formal = builder_.bound(name, s.value,
                            {{s.delta, 0, 0}, false, in_backward_body() ? s.release_backward : s.release_forward});
  } else if (t == spec.input) {
    const bool last_use =
        in_backward_body() || !(tensors_.saved[i] || (tensors_.recompute_all && tensors_.keeps_input));
    formal = builder_.bound(name, tensors_.value[i], {{}, false, last_use});
  } else if (spec.tensors[i].is_input()) {
    formal = builder_.bound(name, tensors_.value[i], {{}, false, in_backward_body()});
  } else if (const int writer = writer_of(spec, t);
             backward_body_ && !tensors_.saved[i] && writer >= 0 && nth(tensors_.module_of, writer) >= 0) {
    run_again(nth(tensors_.module_of, writer));
    return values_.at(t);
  } else if (tensors_.saved[i] && backward_body_) {
    const auto made = tensors_.skips_out.find(t);
    formal = builder_.bound(name, tensors_.value[i],
                            {{}, false, made == tensors_.skips_out.end() || made->second.release_backward});
  } else {
    throw std::logic_error(
        fmt::format("{}: backward reads '{}', which is neither saved nor recomputed", spec.name, name));
  }
  values_.emplace(t, formal);
  return formal;
}

int BlockBody::value(int t, const Layout& layout, const std::string& why) {
  return fetch(t, layout, to_string(layout), why);
}

int BlockBody::value_for(const std::string& name, int t, const Layout& layout, const std::string& why) {
  return fetch(t, layout, options_.kernels.gather_per_product ? to_string(layout) + " for " + name : to_string(layout),
               why);
}

int BlockBody::input_of_product(const std::string& name, int t, const Layout& layout, const std::string& why) {
  if (!nth(tensors_.gathers_once, t) || without_halos(stored(t)) == without_halos(layout))
    return value_for(name, t, layout, why);
  const std::string kept =
      (options_.kernels.gather_per_product ? name : nth(tensors_.spec->tensors, t).name) + ".gathered";
  if (const auto at = extras_.find(kept); at != extras_.end()) return at->second;
  const bool saved = nth(tensors_.keeps_gathered, t);
  if (saved && in_backward_body()) return extra(kept);
  const int formal = value_for(name, t, layout, why);
  extras_[kept] = formal;
  if (!saved) return formal;
  auto at = tensors_.extra.find(kept);
  if (at == tensors_.extra.end()) {
    Tensor whole = builder_.tensor(formal);
    whole.name = tensors_.spec->name + "." + kept;
    whole.lifetime = Lifetime::saved;
    whole.category = MemoryCategory::activations;
    whole.per_layer = whole.per_microbatch = true;
    at = tensors_.extra.emplace(kept, builder_.frame().add_tensor(std::move(whole))).first;
  }
  builder_.rebind(formal, at->second, {{}, true, false});
  return formal;
}

int BlockBody::fetch(int t, const Layout& layout, const std::string& key, const std::string& why) {
  const int base = value(t);
  if (without_halos(builder_.tensor(base).layout) == without_halos(layout)) return base;
  if (const auto at = fetched_.find({t, key}); at != fetched_.end()) return at->second;
  const int formal = builder_.redistribute(base, layout, why, phase_);
  fetched_.emplace(std::pair(t, key), formal);
  return formal;
}

bool BlockBody::is_dead(int t) const {
  return !(t == tensors_.spec->output && hands_on_) &&
         (t == tensors_.spec->output || tensors_.skips_out.count(t) != 0) && phase_ == Phase::recompute;
}

int BlockBody::dead_value(int t) {
  const auto [at, fresh] = dead_.try_emplace(t);
  if (!fresh) return at->second;
  Tensor dead = program_tensor(nth(tensors_.value, t));
  dead.lifetime = Lifetime::scratch;
  dead.per_layer = dead.per_microbatch = false;
  return at->second = builder_.frame().add_tensor(std::move(dead));
}

int BlockBody::result(int t, const Layout& raw) {
  const auto i = static_cast<std::size_t>(t);
  const BlockSpec& spec = *tensors_.spec;
  const int tensor = tensors_.value[i];
  if (raw != program_tensor(tensor).layout) {
    Tensor partial = program_tensor(tensor);
    partial.name = fmt::format("{}.{}@{}", spec.name, spec.tensors[i].name, to_string(raw));
    partial.layout = raw;
    partial.lifetime = Lifetime::scratch;
    partial.per_layer = partial.per_microbatch = false;
    const auto steps = redistribution(raw, program_tensor(tensor).layout);
    if (steps.size() == 1 && steps[0].op == CollectiveOp::all_reduce) {
      partial.alias_of = is_dead(t) ? dead_value(t) : tensor;  // Reduced in place.
      if (t == spec.output && !is_dead(t)) partial.alias_instance.layer_delta = 1;
    }
    const std::string name = partial.name;
    return builder_.scratch(name, builder_.frame().add_tensor(std::move(partial)));
  }
  int formal = -1;
  if (is_dead(t)) {
    // Recomputed, and for this block alone: the others have had the value.
    formal = builder_.scratch(spec.tensors[i].name, dead_value(t));
  } else if (t == spec.output) {
    formal = builder_.bound(spec.tensors[i].name, tensor, {{1, 0, 0}, true, false});
  } else if (program_tensor(tensor).lifetime == Lifetime::saved) {
    formal = builder_.bound(spec.tensors[i].name, tensor, {{}, true, false});
  } else {
    formal = builder_.scratch(spec.tensors[i].name, tensor);
  }
  values_[t] = formal;
  return formal;
}

void BlockBody::keep(int t, int formal, const std::string& why) {
  const auto i = static_cast<std::size_t>(t);
  if (values_.count(t) != 0) return;
  // The last step of the redistribution writes the stored tensor itself.
  const std::vector<LayoutStep> steps = redistribution(builder_.tensor(formal).layout, stored(t));
  const int target = result(t, stored(t));
  if (steps.size() != 1)
    throw std::logic_error(tensors_.spec->tensors[i].name + ": a result changes layout on one axis at a time");
  if (steps[0].op == CollectiveOp::reduce_scatter)
    formal = builder_.in_order_of_ranks(formal, steps[0].axis, why, phase_);
  Task task;
  task.phase = phase_;
  CollectiveTask c;
  c.op = steps[0].op.value();
  c.reduce = steps[0].reduce;
  c.group = builder_.frame().group(std::string(name_of(steps[0].axis)), {steps[0].axis});
  task.name = fmt::format("{}.{}", why, name_of(c.op));
  task.kind = c;
  task.stream = builder_.frame().stream_of(steps[0].axis);
  task.operands = {c.op == CollectiveOp::all_reduce ? update(formal) : read(formal), write(target)};
  builder_.add(std::move(task));
}

InstanceRef BlockBody::storage_of(int p) const {
  const int owner = nth(tensors_.shared_with, p);
  return owner < 0 ? InstanceRef{} : InstanceRef{owner - tensors_.position, 0, 0};
}

int BlockBody::param(int p) {
  const auto i = static_cast<std::size_t>(p);
  return builder_.bound(tensors_.spec->params[i].name, tensors_.param[i], {storage_of(p), false, false});
}

int BlockBody::grad_accumulator(int p) {
  const auto i = static_cast<std::size_t>(p);
  return builder_.bound(tensors_.spec->params[i].name + ".grad", tensors_.grad[i], {storage_of(p), false, false});
}

int BlockBody::extra(const std::string& name, std::vector<ExprId> shape, DType dtype, const Layout& layout,
                     bool saved) {
  const bool keep_it = saved && !drops();
  auto at = tensors_.extra.find(name);
  if (at == tensors_.extra.end() || (!keep_it && program_tensor(at->second).shape != shape)) {
    Tensor tensor;
    tensor.name = tensors_.spec->name + "." + name;
    tensor.shape = std::move(shape);
    tensor.dtype = dtype;
    tensor.layout = layout;
    tensor.lifetime = keep_it ? Lifetime::saved : Lifetime::scratch;
    tensor.per_layer = tensor.per_microbatch = keep_it;
    at = tensors_.extra.insert_or_assign(name, builder_.frame().add_tensor(std::move(tensor))).first;
  }
  const int formal = keep_it ? builder_.bound(name, at->second, {{}, true, false}) : builder_.scratch(name, at->second);
  extras_[name] = formal;
  return formal;
}

int BlockBody::extra(const std::string& name) {
  if (const auto at = extras_.find(name); at != extras_.end()) return at->second;
  const auto tensor = tensors_.extra.find(name);
  if (tensor == tensors_.extra.end() || program_tensor(tensor->second).lifetime != Lifetime::saved)
    throw std::logic_error(tensors_.spec->name + ": backward reads '" + name +
                           "', which is neither saved nor recomputed");
  const int formal = builder_.bound(name, tensor->second, {{}, false, true});
  extras_[name] = formal;
  return formal;
}

int BlockBody::shared(const std::string& name, int tensor) {
  const bool within = drops();
  return builder_.bound(name, tensor, {{}, within || !in_backward_body(), within || in_backward_body()});
}

int BlockBody::scratch_like(const std::string& name, int formal, const Layout& layout) {
  Tensor t = builder_.tensor(formal);
  t.name = tensors_.spec->name + "." + name;
  t.layout = layout;
  t.lifetime = Lifetime::scratch;
  t.role = TensorRole::general;
  t.per_layer = t.per_microbatch = false;
  return builder_.scratch(name, builder_.frame().add_tensor(std::move(t)));
}

int BlockBody::scratch_like(const std::string& name, int formal, DType dtype) {
  const int f = scratch_like(name, formal, builder_.tensor(formal).layout);
  builder_.frame().program.tensors.back().dtype = dtype;
  return f;
}

int BlockBody::scratch_of(int t, const std::string& name, const Layout& layout) {
  Tensor made = program_tensor(nth(tensors_.value, t));
  made.name = tensors_.spec->name + "." + name;
  made.layout = layout;
  made.lifetime = Lifetime::scratch;
  made.per_layer = made.per_microbatch = false;
  return builder_.scratch(name, builder_.frame().add_tensor(std::move(made)));
}

ExprId BlockBody::replicas(const Layout& value) {
  ProgramFrame& f = builder_.frame();
  ExprId n = ExprPool::kOne;
  for (const Axis a : {Axis::dp_replicate, Axis::dp_shard})
    if (!std::holds_alternative<Replicate>(layout_on(value, a))) n = f.mul(n, f.program.exprs.extent(a));
  return n;
}

bool BlockBody::wants_grad(int t) const {
  const TensorSpec& s = nth(tensors_.spec->tensors, t);
  return !s.is_input() && (options_.input_grad || t != tensors_.spec->input);
}

int BlockBody::grad(int t, const Layout& layout, const std::string& why) {
  const BlockSpec& spec = *tensors_.spec;
  reduce_partial_grads(t, why);
  auto& terms = grads_[t];
  if (t == spec.output && handed_grads_.insert(t).second) {
    const int hidden_grad = nth(builder_.frame().edges, tensors_.out_edge).grad;
    terms.push_back(builder_.bound(nth(spec.tensors, t).name + ".grad", hidden_grad, {{1, 0, 0}, false, true}));
  }
  if (const auto skip = tensors_.skips_out.find(t); skip != tensors_.skips_out.end() && handed_grads_.insert(t).second)
    terms.push_back(builder_.bound(nth(spec.tensors, t).name + ".skip.grad", skip->second.grad, {{}, false, true}));
  if (terms.empty()) return -1;
  if (terms.size() > 1) terms = {sum_of(t, terms)};
  if (builder_.tensor(terms[0]).layout == layout) return terms[0];
  return builder_.redistribute(terms[0], layout, why, Phase::input_grad);
}

std::size_t BlockBody::column_parallel_readers(int t) const {
  const auto splits_outputs = [&](const OpSpec& op) {
    const AxisLayout l = layout_on(param_layout(op.params[0]), Axis::tp);
    const auto* shard = std::get_if<Shard>(&l);
    return shard != nullptr && shard->dim == 0;
  };
  const auto& ops = tensors_.spec->ops;
  return static_cast<std::size_t>(std::count_if(ops.begin(), ops.end(), [&](const OpSpec& op) {
    return op.kind == OpKind::linear && op.inputs[0] == t && splits_outputs(op);
  }));
}

int BlockBody::sum_of(int t, const std::vector<int>& terms) {
  // Terms of a value with several readers are added as the framework adds them, one kernel per term; torch.compile
  // reads all in one.
  const double n = static_cast<double>(terms.size());
  const BlockSpec& spec = *tensors_.spec;
  const bool in_adapter = fuses_adapters() && std::any_of(spec.ops.begin(), spec.ops.end(), [&](const OpSpec& op) {
                            return op.low_rank && op.inputs[0] == t;
                          });
  const double passes = in_adapter                                                      ? kInProduct
                        : options_.kernels.samples_first && options_.kernels.fused_norm ? (n + 1) / (3 * (n - 1))
                                                                                        : 1;
  const std::string& name = nth(spec.tensors, t).name;
  const bool leaves = t == spec.input && builder_.tensor(terms[0]).layout == gradient_layout(stored(t));
  int sum = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) {
    const int next = i + 1 == terms.size() && leaves
                         ? builder_.bound("input.grad", input_grad(), {{}, true, false})
                         : scratch_like(name + ".grad.sum", terms[i], builder_.tensor(terms[i]).layout);
    ComputeTask add;
    add.op = ComputeOp::add;
    add.passes = passes;
    if (in_adapter) add.kernels = 0;
    builder_.compute(name + ".grad.add", add, {read(sum), read(terms[i]), write(next)}, Phase::input_grad);
    sum = next;
  }
  return sum;
}

void BlockBody::reduce_partial_grads(int t, const std::string& why) {
  const std::vector<int> terms = std::exchange(partial_grads_[t], {});
  if (!terms.empty())
    grads_[t].push_back(builder_.redistribute(sum_of(t, terms), gradient_layout(stored(t)), why, Phase::input_grad));
}

void BlockBody::add_grad(int t, int formal, const std::string& why) {
  const Layout target = gradient_layout(stored(t));
  // DTensor adds gradients up before it reduces them, where one gather served all; Megatron-LM's layers each reduce
  // their own.
  const bool adds_first = options_.kernels.samples_first && !options_.kernels.gather_per_product;
  if (const std::size_t readers = column_parallel_readers(t);
      adds_first && readers > 1 && builder_.tensor(formal).layout != target) {
    partial_grads_[t].push_back(formal);
    if (partial_grads_[t].size() == readers) reduce_partial_grads(t, why);
    return;
  }
  grads_[t].push_back(builder_.tensor(formal).layout == target
                          ? formal
                          : builder_.redistribute(formal, target, why, Phase::input_grad));
}

void BlockBody::forward() {
  for (std::size_t i = 0; i < tensors_.spec->ops.size(); ++i) {
    module_ = tensors_.module_of[i];
    lowering_of(tensors_.spec->ops[i].kind).forward(*this, tensors_.spec->ops[i]);
  }
  module_ = -1;
}

void BlockBody::forward_again(bool hands_on) {
  phase_ = Phase::recompute;
  backward_body_ = false;
  hands_on_ = hands_on;
  forward();
}

void BlockBody::run_again(int m) {
  if (!ran_again_.insert(m).second) return;
  const Phase before = std::exchange(phase_, Phase::recompute);
  const auto fetched = std::exchange(fetched_, {});
  const int outer = std::exchange(module_, m);
  for (std::size_t i = 0; i < tensors_.spec->ops.size(); ++i)
    if (tensors_.module_of[i] == m) run_again(tensors_.spec->ops[i], tensors_.unread_again[i]);
  for (std::size_t i = 0; i < tensors_.spec->ops.size(); ++i)
    if (casts_again(i) == m)
      (void)ops::fp8_input(*this, tensors_.spec->ops[i], stored(tensors_.spec->ops[i].inputs[0]));
  module_ = outer;
  fetched_ = fetched;
  phase_ = before;
}

int BlockBody::casts_again(std::size_t op) const {
  const OpSpec& o = tensors_.spec->ops[op];
  return tensors_.module_of[op] < 0 && ops::in_fp8(builder_.frame(), *tensors_.spec, o) &&
                 !ops::casts_gathered(builder_.frame())
             ? ops::input_made_again_by(tensors_, o)
             : -1;
}

void BlockBody::run_again(const OpSpec& op, bool unread) {
  if (!unread) return lowering_of(op.kind).forward(*this, op);
  // Of a product in fp8 backward still reads the cast input.
  if (op.kind == OpKind::linear && ops::in_fp8(*this, op) && !ops::casts_gathered(builder_.frame()))
    (void)ops::fp8_input(*this, op, stored(op.inputs[0]));
}

int BlockBody::persistent(const std::string& name, Tensor like) {
  const auto [at, fresh] = tensors_.persistent.try_emplace(name, -1);
  if (fresh) {
    like.lifetime = Lifetime::persistent;
    like.per_layer = true;
    like.per_microbatch = false;
    at->second = builder_.frame().add_tensor(std::move(like));
  }
  return at->second;
}

void BlockBody::backward() {
  phase_ = Phase::input_grad;
  // Recomputed values are kept as they are stored; backward gathers them anew, as without recomputation.
  fetched_.clear();
  const auto& ops = tensors_.spec->ops;
  for (std::size_t i = ops.size(); i-- > 0;) {
    if (tensors_.module_of[i] >= 0) run_again(tensors_.module_of[i]);
    if (const int m = casts_again(i); m >= 0) run_again(m);
    lowering_of(ops[i].kind).backward(*this, ops[i]);
  }
  for (const auto& [t, skip] : tensors_.skips_in) {
    const int sum = grad(t, gradient_layout(stored(t)), "skip.grad");
    if (sum < 0) throw std::logic_error(tensors_.spec->name + ": a skip connection has no gradient");
    export_grad(sum, skip.grad, {{skip.delta, 0, 0}, true, false});
  }
  if (!options_.input_grad || !options_.weight_grads) release_unread();
  if (tensors_.spec->input < 0 || !options_.input_grad) return;
  // The gradient of the block's input leaves the body in hidden_grad of this layer.
  const int t = tensors_.spec->input;
  const int sum = grad(t, gradient_layout(stored(t)), "input.grad");
  if (sum < 0) throw std::logic_error(tensors_.spec->name + ": the input has no gradient");
  export_grad(sum, input_grad(), {{}, true, false});
}

/// What forward kept for a gradient that nobody asks for is given back all the same.
void BlockBody::release_unread() {
  for (std::size_t t = 0; t < tensors_.saved.size(); ++t)
    if (tensors_.saved[t] && static_cast<int>(t) != tensors_.spec->output)
      (void)value(static_cast<int>(t));  // The output is the next block's.
  for (const auto& [name, tensor] : tensors_.extra)
    if (program_tensor(tensor).lifetime == Lifetime::saved) (void)extra(name);
}

/// What the body computed as scratch leaves it in `tensor`; what has left it already, or came from outside, is copied.
void BlockBody::export_grad(int formal, int tensor, const Hold& hold) {
  if (builder_.is_scratch(formal)) return builder_.rebind(formal, tensor, hold);
  const int out = builder_.bound("grad.out", tensor, hold);
  if (out == formal) return;
  ComputeTask copy;
  copy.op = ComputeOp::copy;
  builder_.compute("grad.copy", copy, {read(formal), write(out)}, Phase::input_grad);
}

}  // namespace rehearse
