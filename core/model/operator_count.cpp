#include "core/model/operator_count.hpp"

namespace rehearse {
namespace {

OperatorCount count(const BlockSpec& block, const OpSpec& op, int repeat, std::int64_t b, std::int64_t s) {
  OperatorCount c{.block = block.name, .op = op.name, .kind = op.kind, .repeat = repeat};
  for (int p : op.params)
    if (block.params[p].tied_to.empty()) c.parameters += block.params[p].elements();
  for (int t : op.outputs) c.output_elements += elements(block.tensors[t].shape, b, s);
  c.forward_flops = forward_matmul_flops(block, op, b, s, false);
  return c;
}

}  // namespace

std::vector<OperatorCount> count_operators(const Network& network, std::int64_t b, std::int64_t s) {
  std::vector<OperatorCount> out;
  for (std::size_t i = 0; i < network.blocks.size(); ++i)
    for (const auto& op : network.blocks[i].ops) out.push_back(count(network.blocks[i], op, network.repeat[i], b, s));
  return out;
}

}  // namespace rehearse
