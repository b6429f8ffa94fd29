#include "core/model/encoder.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/config/setting_key.hpp"
#include "core/model/network_check.hpp"
#include "core/model/op_table.hpp"

namespace rehearse {
namespace {

const SettingKey<std::int64_t> kPredictedPositions = declare_key(
    "training.predicted_positions", std::int64_t{0}, "Positions of a sequence whose words an encoder's head predicts.",
    {.least = 0,
     .most = 100'000'000,
     .detail = "0: all. Otherwise the head gathers so many positions of each sequence first, and its products, its "
               "logits and its loss are of those alone, as FLOPs and MFU count it: BERT's max_predictions_per_seq, 20 "
               "of 128 tokens and 76 to 80 of 512. Hugging Face's head works on all. Without effect on models that "
               "predict the next token.",
     .example = "20"});

std::string wrong_gather(const BlockSpec& block, const OpSpec& op) {
  const TensorSpec &x = nth(block.tensors, op.inputs[0]), &positions = nth(block.tensors, op.inputs[1]);
  const Shape& rows = nth(block.tensors, op.outputs[0]).shape;
  if (!positions.integer) return "positions are integers";
  if (x.shape.size() != 3 || rows.size() != 3 || rows[2].size != x.shape[2].size)
    return "rows of [batch, positions, features] are gathered from [batch, sequence, features]";
  return {};
}

/// x [b,s,h], positions [b,n] -> [b,n,h].
ElementTraffic gather_traffic(const BlockSpec& block, const OpSpec& op, std::int64_t b, std::int64_t s) {
  const auto out = elements(nth(block.tensors, op.outputs[0]).shape, b, s);
  return {out + elements(nth(block.tensors, op.inputs[1]).shape, b, s), out};
}

const OpKind kGather = add_operator({.kind = {},
                                     .name = "gather_positions",
                                     .summary = "those of a sequence's tokens that positions name",
                                     .inputs = 2,
                                     .min_params = 0,
                                     .max_params = 0,
                                     .matmul_flops = nullptr,
                                     .traffic = gather_traffic,
                                     .wrong = wrong_gather});

bool takes_loss(const BlockSpec& block) {
  return std::any_of(block.ops.begin(), block.ops.end(),
                     [](const OpSpec& op) { return op.kind == OpKind::cross_entropy; });
}

void gather_first(BlockSpec& block, std::int64_t count) {
  const TensorSpec input = nth(block.tensors, block.input);
  for (std::size_t t = 0; t < block.tensors.size(); ++t)
    for (Dim& d : block.tensors[t].shape)
      if (d.tag == DimTag::sequence && static_cast<int>(t) != block.input) d = {DimTag::fixed, count};
  const auto rows = static_cast<int>(block.tensors.size()), positions = rows + 1;
  for (OpSpec& op : block.ops) std::replace(op.inputs.begin(), op.inputs.end(), block.input, rows);
  TensorSpec gathered = input;
  gathered.name = "gather";
  gathered.shape[1] = {DimTag::fixed, count};
  block.tensors.push_back(gathered);
  block.tensors.push_back(
      {.name = "positions", .shape = {{DimTag::batch, 0}, {DimTag::fixed, count}}, .integer = true});
  block.ops.insert(
      block.ops.begin(),
      {.kind = kGather, .name = "gather", .inputs = {block.input, positions}, .outputs = {rows}, .params = {}});
}

}  // namespace

bool encodes(const Network& network) {
  bool any = false;
  for (const BlockSpec& block : network.blocks)
    for (const OpSpec& op : block.ops)
      if (op.kind == OpKind::attention) {
        if (op.causal) return false;
        any = true;
      }
  return any;
}

std::int64_t predicted_positions(const TrainingSettings& training) { return kPredictedPositions(training); }

bool predicts_some(const Network& network, const TrainingSettings& training) {
  const std::int64_t count = predicted_positions(training);
  return count > 0 && count < training.sequence_length && encodes(network);
}

Network with_predicted_positions(Network network, const TrainingSettings& training) {
  if (!predicts_some(network, training)) return network;
  const std::int64_t count = predicted_positions(training);
  for (BlockSpec& block : network.blocks)
    if (takes_loss(block) && block.input >= 0) gather_first(block, count);
  network.simulated_only.push_back(fmt::format("a head on {} positions of a sequence", count));
  validate(network);
  return network;
}

}  // namespace rehearse
