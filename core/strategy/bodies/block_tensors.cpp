// The tensors of a block in the Program: values and which of them are kept, parameters and their gradients.

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/config/setting_key.hpp"
#include "core/config/settings/choices.hpp"
#include "core/strategy/bodies/recompute.hpp"
#include "core/strategy/operators/fp8.hpp"
#include "core/strategy/operators/linear_loss.hpp"

namespace rehearse {

namespace {

ExprId size_of_dim(ProgramFrame& frame, const Dim& dim, const BlockOptions& options) {
  if (dim.tag == DimTag::batch) return frame.constant(options.batch);
  if (dim.tag == DimTag::sequence) return frame.constant(options.sequence);
  if (dim.tag == DimTag::routed) return options.experts.arrived;
  return frame.constant(dim.size);
}

std::vector<ExprId> shape_of(ProgramFrame& frame, const Shape& shape, const BlockOptions& options) {
  std::vector<ExprId> out;
  for (const Dim& d : shape) out.push_back(size_of_dim(frame, d, options));
  return out;
}

/// A parameter's gradient is a partial sum over every axis that divides the tokens but not the parameter.
Layout gradient_of_param(const Layout& param, const Layout& tokens) {
  Layout out = gradient_layout(param);
  for (const auto& [axis, l] : without_halos(tokens))
    if ((std::holds_alternative<Shard>(l) || std::holds_alternative<Ragged>(l)) &&
        std::holds_alternative<Replicate>(layout_on(param, axis)))
      out.emplace_back(axis, Partial{});
  return out;
}

/// Layout of the tokens an op's weight gradient sums over: its gradient of output, which is sharded as the output is
/// stored unless the op gathers it first (a row- or column-parallel product sees all tokens of the group).
Layout token_layout(const BlockSpec& spec, const LayoutPlan::Block& layouts, std::size_t param) {
  for (const OpSpec& op : spec.ops) {
    if (std::find(op.params.begin(), op.params.end(), static_cast<int>(param)) == op.params.end()) continue;
    const auto at = static_cast<std::size_t>(op.outputs.empty() ? op.inputs.at(0) : op.outputs.at(0));
    Layout out = layouts.tensors[at];
    const auto& weight = nth(layouts.params, op.params.at(0));
    const bool weight_split = std::holds_alternative<Shard>(layout_on(weight, Axis::tp));
    // A bias of a row-parallel product is added after the reduction, to the stored output.
    const bool is_weight = op.params.at(0) == static_cast<int>(param);
    if (weight_split && (is_weight || std::holds_alternative<Shard>(layout_on(layouts.params[param], Axis::tp))))
      out = with_axis(out, Axis::tp, Replicate{});
    return out;
  }
  return {};
}

const SettingKey<bool> kKeepsGathered = declare_key(
    "framework.keeps_gathered_inputs", false, "Column-parallel products keep the tokens that they gathered.",
    {.detail = "Under sequence parallelism, for the weight gradient: PyTorch's DTensor. false: they keep their slice "
               "and gather again in backward, as Megatron and Transformer Engine do. Not for products in fp8."});

/// Layouts of a block's values and parameters.
using LayoutOf = std::function<const Layout&(int)>;

/// Whether the op is a column-parallel product of tokens that lie in slices.
bool gathers(const OpSpec& op, const LayoutOf& value, const LayoutOf& param) {
  if (op.kind != OpKind::linear || op.params.empty()) return false;
  const AxisLayout weight = layout_on(param(op.params[0]), Axis::tp), input = layout_on(value(op.inputs[0]), Axis::tp);
  const auto* split = std::get_if<Shard>(&weight);
  return split != nullptr && split->dim == 0 && std::holds_alternative<Shard>(input);
}

/// Values that backward reads as forward left them.
std::vector<bool> saved_values(const ProgramFrame& frame, const BlockSpec& spec, const BlockOptions& options,
                               BlockTensors& block, const LayoutOf& value, const LayoutOf& param) {
  const auto nothing = std::vector<bool>(spec.tensors.size(), false);
  std::vector<bool> needed = nothing, as_stored = nothing;
  block.gathers_once = block.keeps_gathered = nothing;
  const bool once = kKeepsGathered(options.kernels) && !options.overlap_tp;
  for (std::size_t o = 0; o < spec.ops.size(); ++o) {
    const OpSpec& op = spec.ops[o];
    const bool fp8 = ops::in_fp8(frame, spec, op), gathered = once && !fp8 && gathers(op, value, param);
    if (gathered) nth(block.gathers_once, op.inputs[0]) = true;
    // What runs again in backward reads its inputs as they are kept.
    if (nth(block.module_of, o) >= 0 && !gathered)
      for (const int t : op.inputs) nth(as_stored, t) = true;
    if (fp8 && !ops::casts_gathered(frame)) continue;  // Their inputs are kept in fp8.
    for (const int t : lowering_of(op.kind).saved(op, options, frame)) {
      nth(needed, t) = true;
      if (!gathered) nth(as_stored, t) = true;
    }
  }
  if (block.recompute_all) return nothing;
  std::vector<bool> kept = kept_values(spec, std::move(needed), block.module_of, block.unread_again);
  for (std::size_t t = 0; t < kept.size(); ++t) {
    block.keeps_gathered[t] = kept[t] && block.gathers_once[t];
    kept[t] = kept[t] && (as_stored[t] || !block.gathers_once[t]);
  }
  return kept;
}

/// All that backward reads of what forward makes, in whatever type it is kept.
std::vector<bool> read_in_backward(const ProgramFrame& frame, const BlockSpec& spec, const BlockOptions& options) {
  std::vector<bool> out(spec.tensors.size(), false);
  for (const OpSpec& op : spec.ops)
    for (const int t : lowering_of(op.kind).saved(op, options, frame)) nth(out, t) = true;
  return out;
}

/// Working weights of products in fp8 may be stored so, frozen ones in fp4 too.
DType weight_dtype(const ProgramFrame& frame, const BlockSpec& spec, std::size_t param) {
  if (!frame.fp8 || !frame.fp8->parameters) return frame.activation_dtype;
  for (const OpSpec& op : spec.ops)
    if (!op.params.empty() && op.params[0] == static_cast<int>(param) && ops::in_fp8(frame, spec, op))
      return frame.narrow;
  return frame.activation_dtype;
}

}  // namespace

int edge_of(ProgramFrame& frame, const Shape& shape, const Layout& layout, const BlockOptions& options) {
  Tensor hidden;
  hidden.shape = shape_of(frame, shape, options);
  for (std::size_t e = 0; e < frame.edges.size(); ++e) {
    const Tensor& known = nth(frame.program.tensors, frame.edges[e].value);
    if (known.shape == hidden.shape && known.layout == layout) return static_cast<int>(e);
  }
  const std::string kind = frame.edges.empty() ? "" : fmt::format(" {}", frame.edges.size() + 1);
  hidden.name = fmt::format("hidden{}.{{layer}}", kind.empty() ? "" : kind.substr(1));
  hidden.dtype = frame.activation_dtype;
  hidden.layout = layout;
  hidden.lifetime = Lifetime::saved;
  hidden.per_layer = hidden.per_microbatch = true;
  ProgramFrame::Edge edge;
  edge.value = frame.add_tensor(hidden);
  hidden.name += ".grad";
  hidden.layout = gradient_layout(hidden.layout);
  hidden.lifetime = Lifetime::step;
  edge.grad = frame.add_tensor(hidden);
  frame.program.edges.push_back(
      {"activations forward" + kind, edge.value, false, frame.blocking_messages, MessageKind::activations});
  frame.program.edges.push_back(
      {"gradients backward" + kind, edge.grad, false, frame.blocking_messages, MessageKind::activation_gradients});
  frame.edges.push_back(edge);
  return static_cast<int>(frame.edges.size()) - 1;
}

BlockTensors make_block_tensors(ProgramFrame& frame, const BlockSpec& spec, const LayoutPlan::Block& layouts,
                                const BlockOptions& options, const RecomputeChoice& recompute) {
  BlockTensors out;
  out.spec = &spec;
  const auto edge = [&](int t) {
    return t < 0 ? -1 : edge_of(frame, nth(spec.tensors, t).shape, nth(layouts.tensors, t), options);
  };
  out.in_edge = edge(spec.input);
  out.out_edge = edge(spec.output);
  out.shared_with.assign(spec.params.size(), -1);
  const bool selective = recompute.kind == Recompute::selective;
  out.recompute_all = recompute.kind == Recompute::full && spec.input >= 0 && spec.output >= 0;
  out.recompute_core = selective && std::find(recompute.modules.begin(), recompute.modules.end(), "core_attn") !=
                                        recompute.modules.end();
  std::vector<std::string> modules = selective ? recompute.modules : std::vector<std::string>{};
  out.module_of = modules_of(spec, modules);
  // Of each output product by itself: its logits, where no memory holds them.
  for (std::size_t o = 0; o < spec.ops.size(); ++o) {
    if (spec.ops[o].kind != OpKind::linear || !ops::logits_on_chip(spec.ops[o], options.kernels)) continue;
    out.module_of[o] = static_cast<int>(modules.size());
    modules.push_back("logits");
  }
  out.unread_again = unread_again(spec, read_in_backward(frame, spec, options), out.module_of, modules);
  out.saved = saved_values(
      frame, spec, options, out, [&](int t) -> const Layout& { return nth(layouts.tensors, t); },
      [&](int p) -> const Layout& { return nth(layouts.params, p); });

  for (std::size_t t = 0; t < spec.tensors.size(); ++t) {
    const TensorSpec& s = spec.tensors[t];
    if (static_cast<int>(t) == spec.input || static_cast<int>(t) == spec.output) {
      out.value.push_back(nth(frame.edges, static_cast<int>(t) == spec.input ? out.in_edge : out.out_edge).value);
      continue;
    }
    if (!s.from.empty()) {
      out.value.push_back(-1);  // The maker's tensor, known once all blocks are.
      continue;
    }
    Tensor tensor;
    tensor.name = spec.name + "." + s.name;
    tensor.shape = shape_of(frame, s.shape, options);
    tensor.dtype = s.integer ? DType::int64 : s.fp32 ? DType::fp32 : frame.activation_dtype;
    tensor.layout = layouts.tensors[t];
    tensor.lifetime = s.is_input() ? Lifetime::step : out.saved[t] ? Lifetime::saved : Lifetime::scratch;
    tensor.per_layer = tensor.per_microbatch = tensor.lifetime != Lifetime::scratch;
    if (const int w = writer_of(spec, static_cast<int>(t));
        w >= 0 && ops::logits_on_chip(nth(spec.ops, w), options.kernels) && nth(spec.ops, w).kind == OpKind::linear)
      tensor.space = MemorySpace::chip;
    out.value.push_back(frame.add_tensor(std::move(tensor)));
  }
  for (std::size_t p = 0; p < spec.params.size(); ++p) {
    const ParamSpec& s = spec.params[p];
    Tensor tensor;
    tensor.name = spec.name + (spec.input >= 0 && spec.output >= 0 ? ".{layer}." : ".") + s.name;
    tensor.shape = shape_of(frame, s.shape, options);
    tensor.dtype = weight_dtype(frame, spec, p);
    tensor.layout = layouts.params[p];
    tensor.lifetime = Lifetime::persistent;
    tensor.category = MemoryCategory::weights;
    tensor.per_layer = true;
    tensor.segments = s.segments;
    tensor.initial_key = s.tied_to;
    tensor.initial = s.init_one         ? "ones"
                     : s.init_std > 0   ? fmt::format("normal({})", s.init_std)
                     : s.init_bound > 0 ? fmt::format("uniform({})", s.init_bound)
                                        : "zeros";
    out.param.push_back(frame.add_tensor(tensor));
    tensor.name += ".grad";
    tensor.dtype = frame.gradient_dtype;
    tensor.category = MemoryCategory::gradients;
    tensor.layout = gradient_of_param(layouts.params[p], token_layout(spec, layouts, p));
    tensor.initial = "zeros";
    out.grad.push_back(frame.add_tensor(std::move(tensor)));
  }
  return out;
}

BlockTensors keep_values(ProgramFrame& frame, const BlockTensors& block, const BlockOptions& options) {
  BlockTensors out = block;
  out.recompute_all = false;
  out.extra.clear();
  const auto layout_of = [&](int tensor) -> const Layout& { return nth(frame.program.tensors, tensor).layout; };
  out.saved = saved_values(
      frame, *block.spec, options, out, [&](int t) -> const Layout& { return layout_of(nth(block.value, t)); },
      [&](int p) -> const Layout& { return layout_of(nth(block.param, p)); });
  for (std::size_t t = 0; t < out.value.size(); ++t) {
    if (!out.saved[t] || nth(frame.program.tensors, out.value[t]).lifetime != Lifetime::scratch) continue;
    Tensor kept = nth(frame.program.tensors, out.value[t]);
    kept.lifetime = Lifetime::saved;
    kept.per_layer = kept.per_microbatch = true;
    out.value[t] = frame.add_tensor(std::move(kept));
  }
  return out;
}

}  // namespace rehearse
