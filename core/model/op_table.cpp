#include "core/model/op_table.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

namespace rehearse {
namespace {

const TensorSpec& input(const BlockSpec& block, const OpSpec& op, std::size_t i) { return block.tensors[op.inputs[i]]; }

double size_in(const BlockSpec& block, const OpSpec& op, std::int64_t b, std::int64_t s) {
  return static_cast<double>(elements(input(block, op, 0).shape, b, s));
}

Flops linear_flops(const BlockSpec& block, const OpSpec& op, std::int64_t b, std::int64_t s, bool) {
  const double out = static_cast<double>(block.params[op.params[0]].shape[0].size);
  return Flops{2.0 * size_in(block, op, b, s) * out};
}

Flops attention_flops(const BlockSpec& block, const OpSpec& op, std::int64_t b, std::int64_t s, bool causal_half) {
  const double length = static_cast<double>(s),
               keys = op.attention_window > 0 ? static_cast<double>(std::min(op.attention_window, s)) : length;
  const double seen = causal_half && op.causal ? keys - keys * keys / (2 * length) : keys;  // By a query, on average.
  const double out = static_cast<double>(elements(block.tensors[op.outputs[0]].shape, b, s));
  return Flops{2.0 * (size_in(block, op, b, s) + out) * seen};
}

Flops router_flops(const BlockSpec& block, const OpSpec& op, std::int64_t b, std::int64_t s, bool) {
  return Flops{2.0 * size_in(block, op, b, s) * static_cast<double>(op.routing.experts)};
}

Flops grouped_flops(const BlockSpec& block, const OpSpec& op, std::int64_t b, std::int64_t s, bool) {
  return Flops{2.0 * size_in(block, op, b, s) * static_cast<double>(block.params[op.params[0]].shape[1].size)};
}

ElementTraffic every_operand_once(const BlockSpec& block, const OpSpec& op, std::int64_t b, std::int64_t s) {
  ElementTraffic t;
  for (int i : op.inputs) t.read += elements(block.tensors[i].shape, b, s);
  for (int i : op.params) t.read += block.params[i].elements();
  for (int i : op.outputs) t.written += elements(block.tensors[i].shape, b, s);
  return t;
}

ElementTraffic embedding_traffic(const BlockSpec& block, const OpSpec& op, std::int64_t b, std::int64_t s) {
  const auto out = elements(block.tensors[op.outputs[0]].shape, b, s);
  return {elements(input(block, op, 0).shape, b, s) + out, out};
}

ElementTraffic position_traffic(const BlockSpec& block, const OpSpec& op, std::int64_t b, std::int64_t s) {
  const auto out = elements(block.tensors[op.outputs[0]].shape, b, s);
  return {out + s * block.params[op.params[0]].shape[1].size, out};
}

/// Of the recurrence, as Megatron-LM counts it for its reports (megatron/training/training.py, mamba_layer_flops): 7
/// for each of the a p n elements of a token's state. Kernels that work in chunks do more.
Flops state_space_flops(const BlockSpec& block, const OpSpec& op, std::int64_t b, std::int64_t s, bool) {
  constexpr double kEach = 7;
  const double x = static_cast<double>(elements(input(block, op, 1).shape, b, s));
  return Flops{kEach * x * static_cast<double>(input(block, op, 2).shape.back().size)};
}

/// Each output element is a sum over its window and the input channels of its group; transposed, each input element is
/// spread so.
Flops convolution_flops(const BlockSpec& block, const OpSpec& op, std::int64_t b, std::int64_t s, bool) {
  const ParamSpec& weight = block.params[op.params[0]];
  const double per_element = static_cast<double>(weight.elements()) / static_cast<double>(weight.shape[0].size);
  const auto& spread = block.tensors[op.transposed ? op.inputs[0] : op.outputs[0]];
  return Flops{2.0 * static_cast<double>(elements(spread.shape, b, s)) * per_element};
}

constexpr auto kOnce = every_operand_once;
constexpr std::array<OpInfo, 34> kTable{{
    {OpKind::embedding, "embedding", "row of a table for each token", 1, 1, 1, nullptr, embedding_traffic},
    {OpKind::position_embedding, "position_embedding", "adds a learned row for each position", 1, 1, 1, nullptr,
     position_traffic},
    {OpKind::dropout, "dropout", "zeroes a random fraction and scales the rest", 1, 0, 0, nullptr, kOnce},
    {OpKind::layer_norm, "layer_norm", "mean 0, variance 1 over hidden, then weight and bias", 1, 2, 2, nullptr, kOnce},
    {OpKind::rms_norm, "rms_norm", "root mean square 1 over hidden, then weight", 1, 1, 1, nullptr, kOnce},
    {OpKind::linear, "linear", "matrix product with a weight, and a bias if it has one", 1, 1, 2, linear_flops, kOnce},
    {OpKind::rope, "rope", "rotates pairs of elements of each head by the position", 1, 0, 0, nullptr, kOnce},
    {OpKind::attention, "attention", "softmax(q k^T / sqrt(d)) v, per head", 3, 0, 1, attention_flops, kOnce},
    {OpKind::gelu, "gelu", "x times the normal distribution function of x", 1, 0, 0, nullptr, kOnce},
    {OpKind::squared_relu, "squared_relu", "square of the larger of x and 0", 1, 0, 0, nullptr, kOnce},
    {OpKind::silu_mul, "silu_mul", "gate * sigmoid(gate) * up", 2, 0, 0, nullptr, kOnce},
    {OpKind::add, "add", "sum of two tensors", 2, 0, 0, nullptr, kOnce},
    {OpKind::cross_entropy, "cross_entropy", "mean of -log softmax(logits)[label]", 2, 0, 0, nullptr, kOnce},
    {OpKind::append, "append", "appends one vector to every head", 2, 0, 0, nullptr, kOnce},
    {OpKind::router, "router", "scores the experts for each token and takes the best k", 1, 1, 2, router_flops, kOnce},
    {OpKind::dispatch, "dispatch", "brings tokens to their experts, in expert order", 2, 0, 0, nullptr, kOnce},
    {OpKind::grouped_linear, "grouped_linear",
     "matrix product of each row with its expert's weight, and a bias if it has one", 1, 1, 2, grouped_flops, kOnce},
    {OpKind::weighted_silu_mul, "weighted_silu_mul", "weight of the row * gate * sigmoid(gate) * up", 3, 0, 0, nullptr,
     kOnce},
    {OpKind::combine, "combine", "brings rows back and adds up each token's", 2, 0, 0, nullptr, kOnce},
    {OpKind::convolution, "convolution", "sums over a window and the input channels, for each output channel", 1, 1, 2,
     convolution_flops, kOnce},
    {OpKind::pool, "pool", "maximum or mean over a window of each channel", 1, 0, 0, nullptr, kOnce},
    {OpKind::global_pool, "global_pool", "mean over the pixels of each channel", 1, 0, 0, nullptr, kOnce},
    {OpKind::batch_norm, "batch_norm", "mean 0, variance 1 per channel over batch and pixels, then weight and bias", 1,
     2, 2, nullptr, kOnce},
    {OpKind::relu, "relu", "larger of x and 0", 1, 0, 0, nullptr, kOnce},
    {OpKind::gate, "gate", "leaky_relu(features) * sigmoid(gates)", 2, 0, 0, nullptr, kOnce},
    {OpKind::concat, "concat", "channels of several images one after the other", kAnyInputs, 0, 0, nullptr, kOnce},
    {OpKind::upsample, "upsample", "sides longer by a factor", 1, 0, 0, nullptr, kOnce},
    {OpKind::pixel_loss, "pixel_loss", "mean over pixels of -log softmax(logits)[label]", 2, 0, 0, nullptr, kOnce},
    {OpKind::leaky_relu, "leaky_relu", "x above 0, slope * x below", 1, 0, 0, nullptr, kOnce},
    {OpKind::tanh, "tanh", "hyperbolic tangent", 1, 0, 0, nullptr, kOnce},
    {OpKind::adversarial_loss, "adversarial_loss", "mean loss of taking samples for real or for made", 1, 0, 0, nullptr,
     kOnce},
    {OpKind::weighted_squared_relu, "weighted_squared_relu", "weight of the row * square of the larger of x and 0", 2,
     0, 0, nullptr, kOnce},
    {OpKind::grouped_rms_norm, "grouped_rms_norm",
     "root mean square 1 over each of equal runs of features, then weight", 1, 1, 1, nullptr, kOnce},
    {OpKind::state_space, "state_space", "causal convolution, then a state that each token decays and adds to, gated",
     5, 5, 5, state_space_flops, kOnce},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (kTable[i].kind != static_cast<OpKind>(i)) return false;
  return true;
}
static_assert(in_order(), "op_info() indexes the table by OpKind");

std::vector<OpInfo>& every_operator() {
  static std::vector<OpInfo> table(kTable.begin(), kTable.end());
  return table;
}

}  // namespace

OpKind add_operator(OpInfo info) {
  std::vector<OpInfo>& table = every_operator();
  for (const OpInfo& other : table)
    if (other.name == info.name) throw std::logic_error("operator added twice: " + std::string(info.name));
  info.kind = static_cast<OpKind>(table.size());
  if (info.traffic == nullptr) info.traffic = every_operand_once;
  table.push_back(info);
  return info.kind;
}

std::span<const OpInfo> op_table() { return every_operator(); }
const OpInfo& op_info(OpKind kind) { return every_operator().at(static_cast<std::size_t>(kind)); }
std::string_view name_of(OpKind kind) { return op_info(kind).name; }

Flops forward_matmul_flops(const BlockSpec& block, const OpSpec& op, std::int64_t b, std::int64_t s, bool causal_half) {
  const auto rule = op_info(op.kind).matmul_flops;
  return rule ? rule(block, op, b, s, causal_half) : Flops{};
}

ElementTraffic forward_traffic(const BlockSpec& block, const OpSpec& op, std::int64_t b, std::int64_t s) {
  return op_info(op.kind).traffic(block, op, b, s);
}

}  // namespace rehearse
