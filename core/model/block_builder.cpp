#include "core/model/block_builder.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

namespace rehearse {
namespace {

constexpr std::size_t kLeading = 2;  // batch, sequence

Shape activation(const Shape& trailing) {
  Shape shape{{DimTag::batch, 0}, {DimTag::sequence, 0}};
  shape.insert(shape.end(), trailing.begin(), trailing.end());
  return shape;
}

Dim flattened(const Shape& trailing) { return {trailing.front().tag, elements(trailing, 0, 0)}; }

}  // namespace

BlockBuilder::BlockBuilder(std::string name, BlockKind kind) {
  block_.name = std::move(name);
  block_.kind = kind;
}

int BlockBuilder::tensor(TensorSpec spec) {
  spec.name = prefix_ + spec.name;
  block_.tensors.push_back(std::move(spec));
  return static_cast<int>(block_.tensors.size()) - 1;
}

int BlockBuilder::param(ParamSpec spec) {
  spec.name = prefix_ + spec.name;
  block_.params.push_back(std::move(spec));
  return static_cast<int>(block_.params.size()) - 1;
}

OpSpec& BlockBuilder::op(OpKind kind, const std::string& name, std::vector<int> inputs, std::vector<int> outputs,
                         std::vector<int> params) {
  return block_.ops.emplace_back(OpSpec{.kind = kind,
                                        .name = prefix_ + name,
                                        .inputs = std::move(inputs),
                                        .outputs = std::move(outputs),
                                        .params = std::move(params),
                                        .part = part_});
}

int BlockBuilder::like(const std::string& name, int x) {
  return tensor({.name = name, .shape = block_.tensors[x].shape});
}

int BlockBuilder::input(const Shape& trailing) {
  return block_.input = tensor({.name = "input", .shape = activation(trailing)});
}

int BlockBuilder::integers(std::string name, SampleField field) {
  return tensor({.name = std::move(name), .shape = activation({}), .integer = true, .field = field});
}

int BlockBuilder::embedding(const std::string& name, int tokens, std::int64_t vocabulary, std::int64_t hidden,
                            double init_std, const std::string& tied_to) {
  const Dim h{DimTag::hidden, hidden};
  const int table = param({.name = name + ".weight",
                           .shape = {{DimTag::vocabulary, vocabulary}, h},
                           .init_std = init_std,
                           .tied_to = tied_to});
  const int y = tensor({.name = name, .shape = activation({h})});
  op(OpKind::embedding, name, {tokens}, {y}, {table});
  return y;
}

int BlockBuilder::position_embedding(const std::string& name, int x, std::int64_t positions, double init_std) {
  const Dim h = block_.tensors[x].shape.back();
  const int table = param({.name = name + ".weight", .shape = {{DimTag::fixed, positions}, h}, .init_std = init_std});
  const int y = like(name, x);
  op(OpKind::position_embedding, name, {x}, {y}, {table});
  return y;
}

int BlockBuilder::norm(OpKind kind, const std::string& name, int x, double eps) {
  const Shape last{block_.tensors[x].shape.back()};
  std::vector<int> params{param({.name = name + ".weight", .shape = last, .init_one = true})};
  if (kind == OpKind::layer_norm) params.push_back(param({.name = name + ".bias", .shape = last}));
  const int y = like(name, x);
  op(kind, name, {x}, {y}, std::move(params)).eps = eps;
  return y;
}

int BlockBuilder::dropout(const std::string& name, int x, double p) {
  if (p == 0.0) return x;
  const int y = like(name, x);
  op(OpKind::dropout, name, {x}, {y}).p = p;
  return y;
}

std::vector<int> BlockBuilder::linear(const std::string& name, int x, const std::vector<LinearPiece>& pieces,
                                      const LinearOptions& options) {
  const Shape& from = block_.tensors[x].shape;
  const Dim in = flattened(Shape(from.begin() + kLeading, from.end()));
  Dim out{pieces.front().trailing.front().tag, 0};
  std::vector<std::int64_t> segments;
  for (const auto& piece : pieces) {
    segments.push_back(flattened(piece.trailing).size);
    out.size += segments.back();
  }
  if (segments.size() == 1) segments.clear();

  std::vector<int> params{param({.name = name + ".weight",
                                 .shape = {out, in},
                                 .segments = segments,
                                 .init_std = options.init_std,
                                 .tied_to = options.tied_to})};
  if (options.bias) params.push_back(param({.name = name + ".bias", .shape = {out}, .segments = segments}));
  std::vector<int> outputs;
  for (const auto& piece : pieces) outputs.push_back(tensor({.name = piece.name, .shape = activation(piece.trailing)}));
  op(OpKind::linear, name, {x}, outputs, std::move(params)).projection = options.projection;
  return outputs;
}

int BlockBuilder::linear(const std::string& name, int x, Shape trailing, const LinearOptions& options) {
  return linear(name, x, std::vector<LinearPiece>{{name, std::move(trailing)}}, options).front();
}

int BlockBuilder::rope(const std::string& name, int x, std::int64_t rotary_dim, double theta, bool scaled) {
  const int y = like(name, x);
  auto& rope = op(OpKind::rope, name, {x}, {y});
  rope.rotary_dim = rotary_dim;
  rope.rope_theta = theta;
  rope.scaled = scaled;
  return y;
}

int BlockBuilder::append(const std::string& name, int x, int y) {
  Shape shape = block_.tensors[x].shape;
  shape.back().size += block_.tensors[y].shape.back().size;
  const int out = tensor({.name = name, .shape = std::move(shape)});
  op(OpKind::append, name, {x, y}, {out});
  return out;
}

int BlockBuilder::attention(const std::string& name, int q, int k, int v, double p, const AttentionSpan& span) {
  Shape shape = block_.tensors[q].shape;
  shape.back() = block_.tensors[v].shape.back();
  const int y = tensor({.name = name, .shape = std::move(shape)});
  std::vector<int> params;
  if (span.sinks) params.push_back(param({.name = name + ".sinks", .shape = {block_.tensors[q].shape[kLeading]}}));
  auto& attention = op(OpKind::attention, name, {q, k, v}, {y}, std::move(params));
  attention.p = p;
  attention.causal = span.causal;
  attention.attention_window = span.window;
  return y;
}

int BlockBuilder::gelu(const std::string& name, int x, bool tanh_approximation) {
  const int y = like(name, x);
  op(OpKind::gelu, name, {x}, {y}).tanh_gelu = tanh_approximation;
  return y;
}

int BlockBuilder::unary(OpKind kind, const std::string& name, int x) {
  const int y = like(name, x);
  op(kind, name, {x}, {y});
  return y;
}

int BlockBuilder::squared_relu(const std::string& name, int x) { return unary(OpKind::squared_relu, name, x); }

int BlockBuilder::silu_mul(const std::string& name, int gate, int up) {
  const int y = like(name, gate);
  op(OpKind::silu_mul, name, {gate, up}, {y});
  return y;
}

int BlockBuilder::add(const std::string& name, int residual, int x) {
  const int y = like(name, residual);
  op(OpKind::add, name, {residual, x}, {y});
  return y;
}

int BlockBuilder::router(const std::string& name, int x, const Routing& routing, const LinearOptions& options) {
  const Dim h = block_.tensors[x].shape.back();
  const Dim experts{DimTag::fixed, routing.experts};
  std::vector<int> params{param({.name = name + ".weight", .shape = {experts, h}, .init_std = options.init_std})};
  if (options.bias) params.push_back(param({.name = name + ".bias", .shape = {experts}}));
  const int y = tensor({.name = name, .shape = activation({{DimTag::hidden, routing.top_k}}), .fp32 = true});
  op(OpKind::router, name, {x}, {y}, std::move(params)).routing = routing;
  return y;
}

const Routing& BlockBuilder::routing_of(int weights) const {
  for (const OpSpec& o : block_.ops)
    if (o.kind == OpKind::router && o.outputs.front() == weights) return o.routing;
  throw std::logic_error("no router made the weights");
}

BlockBuilder::Routed BlockBuilder::dispatch(const std::string& name, int x, int weights) {
  const Routing routing = routing_of(weights);
  const Dim routed{DimTag::routed, routing.top_k};
  const int rows = tensor({.name = name, .shape = {routed, block_.tensors[x].shape.back()}});
  const int row_weights = tensor({.name = name + ".weights", .shape = {routed}, .fp32 = true});
  op(OpKind::dispatch, name, {x, weights}, {rows, row_weights}).routing = routing;
  return {rows, row_weights};
}

std::vector<int> BlockBuilder::grouped_linear(const std::string& name, int rows, std::int64_t experts, Dim out,
                                              const std::vector<std::string>& pieces, const LinearOptions& options,
                                              int row_weights) {
  const Shape from = block_.tensors[rows].shape;
  const auto count = static_cast<std::int64_t>(pieces.size());
  const Dim made{out.tag, out.size * count}, each{DimTag::experts, experts};
  const auto segments =
      pieces.size() > 1 ? std::vector<std::int64_t>(pieces.size(), out.size) : std::vector<std::int64_t>{};
  std::vector<int> params{param(
      {.name = name + ".weight", .shape = {each, made, from[1]}, .segments = segments, .init_std = options.init_std})};
  if (options.bias) params.push_back(param({.name = name + ".bias", .shape = {each, made}, .segments = segments}));
  std::vector<int> outputs;
  for (const std::string& piece : pieces) outputs.push_back(tensor({.name = piece, .shape = {from[0], out}}));
  op(OpKind::grouped_linear, name,
     options.bias && row_weights >= 0 ? std::vector{rows, row_weights} : std::vector{rows}, outputs, std::move(params));
  return outputs;
}

int BlockBuilder::weighted_silu_mul(const std::string& name, int gate, int up, int weights, double limit) {
  const int y = like(name, gate);
  op(OpKind::weighted_silu_mul, name, {gate, up, weights}, {y}).limit = limit;
  return y;
}

int BlockBuilder::combine(const std::string& name, int rows, int weights) {
  const Routing routing = routing_of(weights);
  const int y = tensor({.name = name, .shape = activation({block_.tensors[rows].shape.back()})});
  op(OpKind::combine, name, {rows, weights}, {y}).routing = routing;
  return y;
}

int BlockBuilder::weighted_squared_relu(const std::string& name, int x, int weights) {
  const int y = like(name, x);
  op(OpKind::weighted_squared_relu, name, {x, weights}, {y});
  return y;
}

int BlockBuilder::grouped_rms_norm(const std::string& name, int x, std::int64_t groups, double eps) {
  const Shape& from = block_.tensors[x].shape;
  const int weight = param(
      {.name = name + ".weight", .shape = {flattened(Shape(from.begin() + kLeading, from.end()))}, .init_one = true});
  const int y = like(name, x);
  auto& norm = op(OpKind::grouped_rms_norm, name, {x}, {y}, {weight});
  norm.eps = eps;
  norm.groups = groups;
  return y;
}

int BlockBuilder::state_space(const std::string& name, const StateSpaceInputs& in, std::int64_t window,
                              std::int64_t chunk) {
  const auto trailing = [this](int t) {
    return Shape(block_.tensors[t].shape.begin() + kLeading, block_.tensors[t].shape.end());
  };
  const Dim inner = flattened(trailing(in.x)), heads = trailing(in.x).front();
  const std::int64_t shared = flattened(trailing(in.b)).size;
  const Dim channels{inner.tag, inner.size + 2 * shared};
  const std::vector<std::int64_t> segments{inner.size, shared, shared};
  std::vector<int> params{param({.name = name + ".conv.weight",
                                 .shape = {channels, {DimTag::fixed, window}},
                                 .segments = segments,
                                 // As wide as PyTorch's uniform one.
                                 .init_std = 1 / std::sqrt(3.0 * static_cast<double>(window))}),
                          param({.name = name + ".conv.bias", .shape = {channels}, .segments = segments}),
                          param({.name = name + ".a_log", .shape = {heads}}),
                          param({.name = name + ".d", .shape = {heads}, .init_one = true}),
                          param({.name = name + ".dt_bias", .shape = {heads}})};
  const int y = like(name, in.x);
  op(OpKind::state_space, name, {in.z, in.x, in.b, in.c, in.dt}, {y}, std::move(params)).chunk = chunk;
  return y;
}

int BlockBuilder::cross_entropy(const std::string& name, int logits, int labels) {
  const int y = tensor({.name = name, .shape = {{DimTag::fixed, 1}}, .fp32 = true});
  op(OpKind::cross_entropy, name, {logits, labels}, {y});
  for (OpSpec& product : block_.ops) {
    // With a bias there would be its gradient to add up beside.
    const bool without_bias = product.params.size() < 2;
    if (product.kind != OpKind::linear || product.outputs != std::vector<int>{logits} || !without_bias) continue;
    product.joins_loss = block_.ops.back().joins_loss = true;
  }
  return y;
}

BlockSpec BlockBuilder::finish(int output) && {
  block_.output = output;
  return std::move(block_);
}

}  // namespace rehearse
