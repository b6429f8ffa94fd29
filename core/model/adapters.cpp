#include "core/model/adapters.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/config/settings/training.hpp"
#include "core/model/network_check.hpp"

namespace rehearse {
namespace {

/// A target is a word of the scenario.
Projection projection_of(const std::string& target) {
  if (target == "qkv") return Projection::qkv;
  if (target == "proj") return Projection::attention_output;
  if (target == "fc1") return Projection::mlp_inner;
  return Projection::mlp_output;
}

bool targeted(const OpSpec& op, const std::vector<std::string>& targets) {
  return op.projection != Projection::none &&
         std::any_of(targets.begin(), targets.end(),
                     [&](const std::string& target) { return projection_of(target) == op.projection; });
}

void freeze(BlockSpec& block) {
  for (ParamSpec& p : block.params) p.frozen = true;
  for (OpSpec& op : block.ops) op.frozen = !op.params.empty();
}

template <class Item>
int append(std::vector<Item>& items, Item item) {
  items.push_back(std::move(item));
  return static_cast<int>(items.size()) - 1;
}

/// Writes a tensor of its own from what `base` reads, of which a fraction is zero.
OpSpec dropout_before(BlockSpec& block, const OpSpec& base, double probability) {
  TensorSpec rest = nth(block.tensors, base.inputs[0]);
  rest.name = base.name + ".lora_dropout";
  OpSpec dropout{.kind = OpKind::dropout, .name = rest.name, .inputs = base.inputs, .outputs = {}, .params = {}};
  dropout.outputs = {append(block.tensors, std::move(rest))};
  dropout.p = probability;
  dropout.low_rank = true;
  return dropout;
}

/// Adds what stands behind `base`: dropout, A, B and a sum for each result. `base` writes to tensors of its own, the
/// sums to those that it had.
std::vector<OpSpec> adapter_of(BlockSpec& block, OpSpec& base, const LoraSettings& lora) {
  const ParamSpec weight = nth(block.params, base.params[0]);
  const Dim low{DimTag::hidden, lora.rank}, in = weight.shape[1];
  Dim out = weight.shape[0];
  if (lora.all_to_all && out.tag == DimTag::hidden) out.tag = DimTag::adapted;
  const Shape tokens{{DimTag::batch, 0}, {DimTag::sequence, 0}, low};
  const double spread = std::sqrt(2.0 / static_cast<double>(in.size + low.size));
  const int a =
      append(block.params, ParamSpec{.name = base.name + ".lora_a.weight", .shape = {low, in}, .init_std = spread});
  const int b = append(
      block.params, ParamSpec{.name = base.name + ".lora_b.weight", .shape = {out, low}, .segments = weight.segments});
  const int reduced = append(block.tensors, TensorSpec{.name = base.name + ".lora_a", .shape = tokens});
  OpSpec down{.kind = OpKind::linear,
              .name = base.name + ".lora_a",
              .inputs = base.inputs,
              .outputs = {reduced},
              .params = {a}};
  OpSpec up{.kind = OpKind::linear, .name = base.name + ".lora_b", .inputs = {reduced}, .outputs = {}, .params = {b}};
  down.low_rank = up.low_rank = true;
  std::vector<OpSpec> sums, added;
  for (int& y : base.outputs) {
    const TensorSpec sum = nth(block.tensors, y);
    TensorSpec frozen = sum, adapted = sum;
    frozen.name += ".frozen";
    adapted.name += ".lora_b";
    if (out.tag == DimTag::adapted) adapted.shape.back() = out;
    const int from = append(block.tensors, std::move(frozen)), more = append(block.tensors, std::move(adapted));
    up.outputs.push_back(more);
    sums.push_back(
        {.kind = OpKind::add, .name = sum.name + ".lora_add", .inputs = {from, more}, .outputs = {y}, .params = {}});
    sums.back().factor = lora.alpha / static_cast<double>(lora.rank);
    y = from;
  }
  if (lora.dropout > 0) {
    added.push_back(dropout_before(block, base, lora.dropout));
    down.inputs = added.back().outputs;
  }
  added.push_back(std::move(down));
  added.push_back(std::move(up));
  added.insert(added.end(), sums.begin(), sums.end());
  for (OpSpec& op : added) op.part = base.part;
  return added;
}

bool add_adapters(BlockSpec& block, const LoraSettings& lora) {
  bool any = false;
  for (std::size_t o = 0; o < block.ops.size(); ++o) {
    if (!targeted(block.ops[o], lora.targets)) continue;
    const std::vector<OpSpec> added = adapter_of(block, block.ops[o], lora);
    block.ops.insert(block.ops.begin() + static_cast<std::ptrdiff_t>(o) + 1, added.begin(), added.end());
    o += added.size();
    any = true;
  }
  return any;
}

}  // namespace

Network with_adapters(Network network, const LoraSettings& lora) {
  if (lora.rank == 0) return network;
  if (!network.sequences || network.routing() != nullptr)
    throw Error(ErrorKind::usage,
                fmt::format("adapters have no lowering for {}",
                            network.routing() != nullptr ? "networks with experts" : "networks without sequences"),
                "training.lora.rank", "set training.lora.rank to 0");
  bool any = false;
  for (BlockSpec& block : network.blocks) {
    freeze(block);
    if (block.is_layer()) any = add_adapters(block, lora) || any;
  }
  if (!any)
    throw Error(
        ErrorKind::usage,
        fmt::format("no layer of {} has a product that '{}' names", network.name, fmt::join(lora.targets, ", ")),
        "training.lora.targets", "choose some of qkv, proj, fc1, fc2");
  validate(network);
  return network;
}

}  // namespace rehearse
